"""download.py against a local mirror."""

import io
import json
import zipfile

import pytest

import local_server
import script_runner
from checkpoints import model_folder, weight_files
from classification import glue
from common import errors
from reproduction import assemble, catalog

GOLDEN = script_runner.ROOT / "tests" / "golden" / "pretraining_run" / "model"
MODEL = "uncased_L-2_H-128_A-2"
MODEL_PATH = f"/storage.googleapis.com/bert_models/2020_02_20/{MODEL}.zip"


def zipped(files):
  data = io.BytesIO()
  with zipfile.ZipFile(data, "w") as archive:
    for name, content in files.items():
      archive.writestr(name, content)
  return data.getvalue()


def tiny_release():
  """A zip as the original's: a folder with weights, shape and vocabulary."""
  names = {path.name: path.read_bytes() for path in GOLDEN.iterdir()}
  return zipped({f"{MODEL}/{name}": data for name, data in names.items()})


def test_a_model_in_one_command_and_nothing_in_the_second(tmp_path):
  with local_server.serve({MODEL_PATH: tiny_release()}) as server:
    server.cuts, server.cut_after = 1, 1000
    flags = {"dir": tmp_path / "d", "model": MODEL, "base_url": server.url}
    done = script_runner.succeed("download.py", **flags)
    assert f"{MODEL}: downloaded. Flags for the scripts:" in done.out
    folder = tmp_path / "d" / MODEL
    assert f"  --model_dir={folder}\n" in done.out
    found = model_folder.find(str(folder))
    assert found["vocab_file"] == f"{folder}/vocab.txt"
    assert weight_files.find_prefix(found["init_checkpoint"])
    num_requests = len(server.requests)
    done = script_runner.succeed("download.py", **flags)
    assert f"{MODEL}: already there" in done.out
    assert len(server.requests) == num_requests
  assert [path.name for path in (tmp_path / "d").iterdir()] == [MODEL]


def test_list_and_mistakes(tmp_path):
  done = script_runner.succeed("download.py", list=True)
  for name in (*catalog.MODELS, *catalog.DATA, *catalog.ELSEWHERE):
    assert f"  {name}" in done.out
  for flags, message in [
    ({}, "nothing to do: pass --model, --data or --list"),
    ({"model": "bert"}, "--model=bert is unknown; --list prints all names"),
    ({"data": "conll2003"}, "need an agreement with NIST"),
  ]:
    script_runner.refuse("download.py", message, dir=tmp_path / "d", **flags)
  assert not (tmp_path / "d").exists()


TRAIN = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n" + "".join(
  f"{n % 2}\t{n}\t{n + 100}\tleft {n}\tright {n}\r\n" for n in range(5)
)
IDS = "1\t101\n3\t103\n"


def mirrored(name, *contents):
  """Returns a catalog.Entry without sums, and what a mirror has of its files.
  """
  entry = catalog.DATA[name]
  files = [catalog.File(file.url) for file in entry.files]
  paths = [file.url.removeprefix("https:/") for file in files]
  return entry._replace(files=files), dict(zip(paths, contents, strict=True))


def test_mrpc_is_split_as_glue_does(tmp_path, monkeypatch):
  entry, files = mirrored("mrpc", *map(str.encode, (TRAIN, TRAIN, IDS)))
  with local_server.serve(files) as server, monkeypatch.context() as patch:
    options = {"base_url": server.url}
    # A run that is interrupted leaves no folder, but the files.
    patch.delattr(assemble, "split_mrpc")
    with pytest.raises(NameError):
      assemble.fetch(entry, str(tmp_path), **options)
    assert not (tmp_path / "mrpc").exists() and len(server.requests) == 3
    patch.undo()
    folder, is_new = assemble.fetch(entry, str(tmp_path), **options)
    assert is_new and len(server.requests) == 3
    assert not assemble.fetch(entry, str(tmp_path), base_url="http://x")[1]
  task = glue.find("MRPC")
  read = {s: glue.read(task, folder, s) for s in ("train", "dev", "test")}
  assert [e.text_a for e in read["train"]] == ["left 0", "left 2", "left 4"]
  assert [e.text_b for e in read["dev"]] == ["right 1", "right 3"]
  assert len(read["test"]) == 5
  assert assemble.flags_to_paste(entry, folder) == [
    "--task_name=MRPC", f"--data_dir={folder}"
  ]
  record = json.loads((tmp_path / "mrpc" / "download.json").read_text())
  assert record["files"] == [file.url for file in entry.files]


def test_several_archives_of_one_data_set_stay_apart(tmp_path):
  entry, files = mirrored("xnli", *(
    zipped({f"{name}/a.tsv": "x"}) for name in ("XNLI-1.0", "XNLI-MT-1.0")
  ))
  with local_server.serve(files) as server:
    folder, _ = assemble.fetch(entry, str(tmp_path), base_url=server.url)
  found = {str(p.relative_to(folder)) for p in tmp_path.rglob("*.tsv")}
  assert found == {"XNLI-1.0/a.tsv", "XNLI-MT-1.0/a.tsv"}


# The published lines have a space at both ends.
RAW = "".join(f" {line} \n" for line in """
= Tamar ( river ) =

The Tamar is a well @-@ known river . It is 98 @.@ 5 km long , isn 't it ? Yes !

= = Course = =

E. Brown wrote " It rises . " in 1 @,@ 000 lines = many .
= Ann =
Ann came .
""".splitlines())


def test_wikitext_becomes_lines_of_sentences(tmp_path):
  entry, files = mirrored("wikitext-2", zipped({
    f"wikitext-2-raw/wiki.{part}.raw": RAW
    for part in ("train", "valid", "test")
  }))
  with local_server.serve(files) as server:
    folder, _ = assemble.fetch(entry, str(tmp_path), base_url=server.url)
  assert {path.name for path in (tmp_path / "wikitext-2").iterdir()} == {
    "train.txt", "valid.txt", "test.txt", "download.json"
  }
  text = (tmp_path / "wikitext-2" / "train.txt").read_text()
  assert text == """
The Tamar is a well-known river .
It is 98.5 km long , isn 't it ?
Yes !
E. Brown wrote " It rises .
" in 1,000 lines = many .

Ann came .
"""
  assert assemble.flags_to_paste(entry, folder) == [
    f"--input_file={folder}/train.txt"
  ]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
  (tmp_path / "mrpc").mkdir()
  with pytest.raises(errors.InputError, match="is not made by download.py"):
    assemble.fetch(catalog.DATA["mrpc"], str(tmp_path))


def test_flags_of_questions_and_of_cased_models():
  flags = assemble.flags_to_paste(catalog.DATA["squad2"], "d")
  assert flags == [
    "--train_file=d/train-v2.0.json", "--predict_file=d/dev-v2.0.json",
    "--version_2_with_negative",
  ]
  flags = assemble.flags_to_paste(catalog.MODELS["cased_L-12_H-768_A-12"], "d")
  assert flags == ["--model_dir=d", "--do_lower_case=false"]
