"""Reads a few lines of each official data set in its real layout."""

import json
import pathlib
import re
import shutil

import pytest

from classification import glue
from common import errors
from message_facts import says

DATA = pathlib.Path(__file__).parent / "data" / "glue"
SUBMITTED = [
  "cola",
  "sst-2",
  "mrpc",
  "sts-b",
  "qqp",
  "mnli",
  "qnli",
  "rte",
  "wnli",
  "ax",
]
# {task: {split: [[guid, text_a, text_b, label], ...]}}. For choices, text_b is
# the list of endings.
EXPECTED = json.loads((DATA.parent / "glue.json").read_text(encoding="utf-8"))


def short(example):
  guid, text_a, text_b, label, endings, _ = example
  return [guid, text_a, list(endings) or text_b, label]


def test_every_task_has_its_files_and_expected_examples():
  assert set(EXPECTED) == set(glue.TASKS)
  assert {path.name for path in DATA.iterdir()} == set(glue.TASKS)
  for name, task in glue.TASKS.items():
    assert set(EXPECTED[name]) == set(task.layouts)
    assert all(EXPECTED[name].values())


@pytest.mark.parametrize("name", EXPECTED)
def test_the_official_files_are_read(name):
  task = glue.find(name)
  for split, expected in EXPECTED[name].items():
    examples = glue.read(task, str(DATA / name), split)
    assert [short(example) for example in examples] == expected
    for example in examples:
      file, line = example.place.rsplit(":", 1)
      text = pathlib.Path(file).read_text(encoding="utf-8")
      row = text.split("\n")[int(line) - 1].replace('""', '"')
      assert example.text_a.split("\n")[0] in row
      assert (example.text_b is None) == (
        len(example.endings) > 0 or name in ("cola", "sst-2", "imdb")
      )


def test_metrics_and_labels_are_the_official_ones():
  """Labels are in the order of the original."""
  metrics = {name: task.metrics for name, task in glue.TASKS.items()}
  exceptions = {
    "cola": ("matthews",),
    "ax": ("matthews",),
    "mrpc": ("f1", "accuracy"),
    "qqp": ("f1", "accuracy"),
    "sts-b": ("pearson", "spearman"),
  }
  assert metrics == {name: ("accuracy",) for name in metrics} | exceptions
  for name in ("mnli", "xnli", "ax"):
    assert glue.TASKS[name].labels == ("contradiction", "entailment", "neutral")
  for name in ("cola", "mrpc"):
    assert glue.TASKS[name].labels == ("0", "1")


def test_mnli_is_scored_on_matched_then_mismatched():
  task = glue.find("mnli")
  assert glue.splits(task, "eval") == ["dev_matched", "dev_mismatched"]
  assert glue.splits(task, "predict") == ["test_matched", "test_mismatched"]
  assert glue.splits(glue.find("imdb"), "eval") == ["test"]
  assert glue.splits(glue.find("ax"), "eval") == []


def test_a_task_is_found_by_all_its_spellings():
  for name in ("STS-B", "sts-b", "stsb", "sts_b"):
    assert glue.find(name).name == "sts-b"
  with pytest.raises(
    errors.InputError, match="no such task; the tasks are cola, "
  ):
    glue.find("snli")


@pytest.mark.parametrize(
  "folder, split, expected",
  [
    ("xnli", "dev", ["dev-1", "Er kam spät.", "Er war müde.", "neutral"]),
    (
      "xnli",
      "train",
      ["train-1", "Der Laden öffnet um neun.", "Der Laden ist zu.", "neutral"],
    ),
    (
      "paws-x/x-final",
      "test",
      ["test-1", "Sie kam aus Oslo .", "Aus Oslo kam sie .", "1"],
    ),
  ],
)
def test_another_language_is_read(folder, split, expected):
  task = glue.find(folder.partition("/")[0])
  (example,) = glue.read(task, str(DATA / folder), split, language="de")
  assert short(example) == expected


# {task: {split: (file in DATA, its possible places)}}
PLACES = {
  "ax": {
    "test": (
      "diagnostic.tsv",
      "diagnostic.tsv AX.tsv diagnostic/diagnostic.tsv",
    )
  },
  "xnli": {
    "train": (
      "multinli/multinli.train.zh.tsv",
      "multinli/multinli.train.zh.tsv "
      "XNLI-MT-1.0/multinli/multinli.train.zh.tsv",
    ),
    "dev": ("xnli.dev.tsv", "xnli.dev.tsv XNLI-1.0/xnli.dev.tsv"),
    "test": ("xnli.test.tsv", "xnli.test.tsv XNLI-1.0/xnli.test.tsv"),
  },
  "paws-x": {
    "train": (
      "x-final/de/translated_train.tsv",
      "de/translated_train.tsv de/train.tsv "
      "x-final/de/translated_train.tsv x-final/de/train.tsv",
    ),
    "dev": ("x-final/de/dev_2k.tsv", "de/dev_2k.tsv x-final/de/dev_2k.tsv"),
    "test": ("x-final/de/test_2k.tsv", "de/test_2k.tsv x-final/de/test_2k.tsv"),
  },
  "imdb": {
    "train": ("train", "train aclImdb/train"),
    "test": ("test", "test aclImdb/test"),
  },
}


def test_the_list_of_places_is_complete():
  assert {name: set(splits) for name, splits in PLACES.items()} == {
    name: several
    for name, task in glue.TASKS.items()
    if (several := {s for s, x in task.layouts.items() if len(x.files) > 1})
  }
  for name, splits in PLACES.items():
    for split, (_, places) in splits.items():
      files = glue.TASKS[name].layouts[split].files
      assert len(places.split()) == len(files)


@pytest.mark.parametrize(
  "name, split, source, place",
  [
    (name, split, source, place)
    for name, splits in PLACES.items()
    for split, (source, places) in splits.items()
    for place in places.split()
  ],
)
def test_a_file_is_found_in_each_of_its_places(
  tmp_path, name, split, source, place
):
  task = glue.find(name)
  language = {"xnli": "zh", "paws-x": "de"}.get(name)
  source, target = DATA / name / source, tmp_path / place
  target.parent.mkdir(parents=True, exist_ok=True)
  copy = shutil.copytree if source.is_dir() else shutil.copy
  copy(source, target)
  found = glue.read(task, str(tmp_path), split, language=language)
  expected = glue.read(task, str(DATA / name), split, language=language)
  assert [short(each) for each in found] == [short(each) for each in expected]
  assert found


@pytest.mark.parametrize(
  "name, split, language, message",
  [
    ("xnli", "dev", "fr", says("--language=fr", "no")),
    ("xnli", "train", "fr", says("multinli.train.fr.tsv", "no", "nor")),
    ("cola", "dev", "fr", says("--language=fr", "CoLA", "only")),
  ],
)
def test_a_missing_language_is_refused(name, split, language, message):
  task = glue.find(name)
  with pytest.raises(errors.InputError, match=message):
    glue.read(task, str(DATA / name), split, language=language)


@pytest.mark.parametrize(
  "split, guid, message",
  [
    ("dev", "dev-2", "dev_2k.tsv: skipped line 2: the text is 'NS'"),
    ("train", "train-1", "translated_train.tsv: skipped line 3: an empty text"),
  ],
)
def test_rows_without_a_translation_are_left_out(split, guid, message, caplog):
  folder = str(DATA / "paws-x")
  (example,) = glue.read(glue.find("paws-x"), folder, split, language="de")
  assert example.guid == guid
  (record,) = caplog.records
  assert message in record.getMessage()


def test_a_cut_row_that_cannot_be_joined_is_left_out(tmp_path, caplog):
  folder = changed(tmp_path, "qqp", "train.tsv", '\n"\tWhich', "\n7\t7\t")
  examples = glue.read(glue.find("qqp"), folder, "train")
  assert [example.guid for example in examples] == ["train-7", "train-4"]
  message = "skipped lines 3, 4: 4 columns, but 6 are in the header"
  assert message in caplog.text


@pytest.mark.parametrize(
  "good, broken, is_refused",
  # Ten rows or, in a large file, a twentieth of the good ones may be broken.
  [(9, 10, False), (9, 11, True), (220, 11, False), (219, 11, True)],
)
def test_too_many_broken_rows_are_refused(tmp_path, good, broken, is_refused):
  (tmp_path / "en").mkdir()
  rows = ["1\tA .\tB .\t1"] * good + ["2\tA .\tNS\t1"] * broken
  text = "\n".join(["id\tsentence1\tsentence2\tlabel", *rows])
  (tmp_path / "en" / "dev_2k.tsv").write_text(text)
  task = glue.find("paws-x")
  if not is_refused:
    assert len(glue.read(task, str(tmp_path), "dev")) == good
    return
  message = f":{good + 2}: .*'NS'.*; {broken} of {good + broken} rows"
  with pytest.raises(errors.InputError, match=message):
    glue.read(task, str(tmp_path), "dev")


@pytest.mark.parametrize("name", ["mnli", "xnli"])
def test_empty_texts_are_kept_where_the_original_keeps_them(tmp_path, name):
  for path in (DATA / name).iterdir():
    if path.is_file():
      text = path.read_text(encoding="utf-8")
      for text_b in ("He was late for work.", "他 累 了 。"):
        text = text.replace(text_b, "")
      (tmp_path / path.name).write_text(text, encoding="utf-8")
  task = glue.find(name)
  split = glue.splits(task, "eval")[0]
  assert glue.read(task, str(tmp_path), split)[0].text_b == ""


def changed(tmp_path, name, file, old, new):
  """Copies a file, with `new` in place of `old`; returns the copy's folder."""
  text = (DATA / name / file).read_bytes().decode("utf-8")
  assert old in text
  (tmp_path / file).write_bytes(text.replace(old, new, 1).encode("utf-8"))
  return str(tmp_path)


@pytest.mark.parametrize(
  "file, old, new, message",
  [
    (
      "cola/dev.tsv",
      "\t*\t",
      "\t",
      "1: no column '4'; the columns are '1', '2', '3'; expected exactly one",
    ),
    ("sst-2/dev.tsv", "\t1\n", "\t1\tx\n", "3: 3 columns, but 2 are in the"),
    ("sst-2/dev.tsv", "sentence\t", "text\t", "1: no column 'sentence'"),
    ("rte/dev.tsv", "index\t", "sentence1\t", "1: 2 columns are named 'sent"),
    (
      "rte/dev.tsv",
      "not_entailment",
      "neutral",
      "2: label 'neutral' is none of 'entailment', 'not_entailment'",
    ),
    ("rte/dev.tsv", "Nobody has climbed the peak.", "  ", "2: an empty text"),
    (
      "sts-b/dev.tsv",
      "4.2",
      "5.2",
      "2: score '5.2' is not a number from 0 to 5",
    ),
    ("sts-b/dev.tsv", "4.2", "nan", "2: score 'nan' is not a number"),
    ("rte/train.tsv", "\n1\t", "\n0\t", "3: duplicate id 'train-0', first at "),
    ("swag/val.csv", "knit.", "", "2: an empty text"),
  ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path, file, old, new, message):
  name, _, file = file.partition("/")
  folder = changed(tmp_path, name, file, old, new)
  split = "train" if "train" in file else "dev"
  with pytest.raises(errors.InputError, match=f"{file}:{message}"):
    glue.read(glue.find(name), folder, split)


def test_rows_without_an_agreed_label_are_left_out(tmp_path, caplog):
  row = "\tneutral\tneutral\n"
  folder = changed(tmp_path, "mnli", "dev_matched.tsv", row, "\tneutral\t-\n")
  assert not glue.read(glue.find("mnli"), folder, "dev_matched")
  assert re.search(says("dev_matched.tsv", "skipped", "without"), caplog.text)


@pytest.mark.parametrize(
  "name, message",
  [
    ("cola", says("train.tsv", "--data_dir", "CoLA", "no", "must")),
    ("mrpc", says("train.tsv", "dev.tsv", "msr_paraphrase_train.txt", "no")),
    ("imdb", says("--data_dir", "no", "nor")),
    ("ax", says("GLUE", "MNLI", "no", "only")),
  ],
)
def test_missing_data_is_reported(tmp_path, name, message):
  with pytest.raises(errors.InputError, match=message):
    glue.read(glue.find(name), str(tmp_path), "train")


def test_a_test_file_with_labels_is_read_with_them(tmp_path):
  (tmp_path / "test.tsv").write_text("sentence\tlabel\na joy\t1\n")
  (example,) = glue.read(glue.find("sst-2"), str(tmp_path), "test")
  assert short(example) == ["test-1", "a joy", None, "1"]


@pytest.mark.parametrize("text", [None, "", " \n"])
def test_an_imdb_class_without_texts_is_refused(tmp_path, text):
  (tmp_path / "train" / "neg").mkdir(parents=True)
  (tmp_path / "train" / "neg" / "0_1.txt").write_text("Bad.")
  (tmp_path / "train" / "pos").mkdir()
  if text is not None:
    (tmp_path / "train" / "pos" / "0_9.txt").write_text(text)
  message = "no .txt files in .*pos" if text is None else "0_9.txt:1: an empty"
  with pytest.raises(errors.InputError, match=message):
    glue.read(glue.find("imdb"), str(tmp_path), "train")


def submitted(tmp_path, name, predictions, split="test"):
  return pathlib.Path(
    glue.write_submission(
      str(tmp_path / "new"), glue.find(name), split, predictions
    )
  )


def test_every_test_set_of_glue_has_its_file(tmp_path):
  names = []
  for name in SUBMITTED:
    task = glue.find(name)
    glue.check_submission(task)
    for split in glue.splits(task, "predict"):
      predictions = [*task.labels[::-1], *task.labels[:1]] or [2.5]
      path = submitted(tmp_path, name, predictions, split)
      names.append(path.name)
      shown = predictions if task.labels else ["2.500"]
      assert path.read_text().split("\n") == [
        "index\tprediction",
        *(f"{n}\t{p}" for n, p in enumerate(shown)),
        "",
      ]
  assert sorted(names) == [
    "AX.tsv",
    "CoLA.tsv",
    "MNLI-m.tsv",
    "MNLI-mm.tsv",
    "MRPC.tsv",
    "QNLI.tsv",
    "QQP.tsv",
    "RTE.tsv",
    "SST-2.tsv",
    "STS-B.tsv",
    "WNLI.tsv",
  ]


def test_scores_are_clipped_and_have_three_decimals(tmp_path):
  path = submitted(tmp_path, "sts-b", [-0.3, 5.2, 3.14159, 0.0])
  assert path.read_text() == (
    "index\tprediction\n0\t0.000\n1\t5.000\n2\t3.142\n3\t0.000\n"
  )


def test_a_wrong_number_of_predictions_is_reported(tmp_path, caplog):
  submitted(tmp_path, "wnli", ["0"] * 146)
  assert not caplog.records
  submitted(tmp_path, "wnli", ["0"] * 145)
  (record,) = caplog.records
  assert "145 of 146 predictions" in record.getMessage()


@pytest.mark.parametrize(
  "name, split, count",
  [
    ("cola", "test", 1063),
    ("sst-2", "test", 1821),
    ("mrpc", "test", 1725),
    ("sts-b", "test", 1379),
    ("qqp", "test", 390965),
    ("mnli", "test_matched", 9796),
    ("mnli", "test_mismatched", 9847),
    ("qnli", "test", 5463),
    ("rte", "test", 3000),
    ("wnli", "test", 146),
    ("ax", "test", 1104),
  ],
)
def test_the_official_number_of_predictions_is_accepted(
  tmp_path, name, split, count, caplog
):
  submitted(tmp_path, name, [1.0] * count, split)
  assert not caplog.records


@pytest.mark.parametrize("name", sorted(set(glue.TASKS) - set(SUBMITTED)))
def test_a_task_that_the_server_does_not_know_is_refused(name):
  with pytest.raises(errors.InputError, match=says("GLUE", "not")):
    glue.check_submission(glue.find(name))
