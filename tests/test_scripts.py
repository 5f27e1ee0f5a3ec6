"""Tests run_pretraining.py and fill_mask.py from the command line."""

import json
import os
import pathlib
import re
import signal

import numpy as np
import pytest

import resumed_runs
import script_runner
import stored_weights
from checkpoints import weight_files
from records import tfrecord
from serving import text_models

GOLDEN = script_runner.ROOT / "tests" / "golden" / "pretraining_run"
MODEL = GOLDEN / "model"
RECORDS = {
  "input_file": f"{GOLDEN}/a.tfrecord,{GOLDEN}/b.tfrecord",
  "max_seq_length": 64,
  "max_predictions_per_seq": 10,
}
TRAINING = {
  **RECORDS,
  "do_train": True,
  "train_batch_size": 8,
  "learning_rate": 2e-3,
  "num_warmup_steps": 20,
}
SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}


def pretrain(code=0, **flags):
  defaults = {"bert_config_file": MODEL / "bert_config.json"}
  return script_runner.run(
    "run_pretraining.py", code=code, **{**defaults, **flags}
  )


def fill_mask(code=0, **flags):
  defaults = {
    "bert_config_file": MODEL / "bert_config.json",
    "vocab_file": MODEL / "vocab.txt",
    "init_checkpoint": MODEL / "bert_model.ckpt",
    "max_seq_length": 64,
  }
  return script_runner.run("fill_mask.py", code=code, **{**defaults, **flags})


def write_config(path, **changed):
  config = json.loads((MODEL / "bert_config.json").read_text())
  path.write_text(json.dumps({**config, **changed}))
  return path


@pytest.fixture(scope="module")
def small_config(tmp_path_factory):
  folder = tmp_path_factory.mktemp("config")
  return write_config(folder / "bert_config.json", **SMALL)


def weights(checkpoint):
  return stored_weights.read(str(checkpoint))


def read_results(path):
  lines = path.read_text(encoding="utf-8").splitlines()
  return [re.fullmatch(r"(\w+) = (\S+)", line).groups() for line in lines]


@pytest.mark.parametrize(
  "golden, flags",
  [
    (
      "eval_results_one_file.txt",
      {"input_file": GOLDEN / "a.tfrecord", "max_eval_steps": 20},
    ),
    (
      "eval_results_two_files.txt",
      {
        "input_file": f"{GOLDEN}/b.tfrecord,{GOLDEN}/a.tfrecord",
        "max_eval_steps": 7,
      },
    ),
    (
      "eval_results_two_files.txt",
      {
        "input_file": GOLDEN / "a.tfrecord",
        "eval_input_file": f"{GOLDEN}/b.tfrecord,{GOLDEN}/a.tfrecord",
        "max_eval_steps": 7,
        "distribution_strategy": "mirrored",
        "num_logical_cpus": 2,
      },
    ),
  ],
  ids=["one file", "two files", "two devices"],
)
def test_evaluation_results_are_the_originals(tmp_path, golden, flags):
  pretrain(
    **{**RECORDS, **flags},
    do_eval=True,
    init_checkpoint=MODEL / "bert_model.ckpt",
    eval_batch_size=8,
    output_dir=tmp_path / "run",
  )
  results = read_results(tmp_path / "run" / "eval_results.txt")
  golden_results = read_results(GOLDEN / golden)
  assert [name for name, _ in results] == [name for name, _ in golden_results]
  for (name, value), (_, golden_value) in zip(results, golden_results):
    if name.endswith("loss"):
      assert float(value) == pytest.approx(float(golden_value), rel=1e-5), name
    else:
      assert value == golden_value, name


def test_records_without_masked_positions(tmp_path, small_config):
  """As in the original: only next-sentence prediction is trained."""
  path = str(tmp_path / "a.tfrecord")
  with tfrecord.RecordWriter(path) as writer:
    for record in tfrecord.read_records(str(GOLDEN / "a.tfrecord")):
      writer.write(
        tfrecord.serialize_example(
          {
            name: values[:0] if name.startswith("masked_lm") else values
            for name, values in record.items()
          }
        )
      )
  pretrain(
    **{**TRAINING, "input_file": path, "max_predictions_per_seq": 0},
    do_eval=True,
    bert_config_file=small_config,
    num_train_steps=2,
    max_eval_steps=1,
    output_dir=tmp_path / "run",
  )
  results = dict(read_results(tmp_path / "run" / "eval_results.txt"))
  assert float(results["masked_lm_loss"]) == 0
  assert 0 < float(results["next_sentence_loss"]) < 2


STEPS = 100


@pytest.fixture(scope="module")
def trained(tmp_path_factory, small_config):
  flags = {
    **TRAINING,
    "do_eval": True,
    "bert_config_file": small_config,
    "vocab_file": MODEL / "vocab.txt",
    "num_train_steps": STEPS,
    "save_checkpoints_steps": 70,
    "log_steps": 10,
    "max_eval_steps": 5,
  }
  folder = tmp_path_factory.mktemp("trained") / "[run]*"
  pretrain(**flags, output_dir=folder)
  return folder, flags


def test_files_of_a_run(trained):
  folder, _ = trained
  files = {
    re.sub(r"tfevents\..*", "tfevents", str(path.relative_to(folder)))
    for path in folder.rglob("*")
    if path.is_file()
  }
  assert files == {
    "checkpoint",
    "eval_results.json",
    "eval_results.txt",
    "events.out.tfevents",
    "final_model/bert_config.json",
    "final_model/bert_model.ckpt.data-00000-of-00001",
    "final_model/bert_model.ckpt.index",
    "final_model/vocab.txt",
    "flags.txt",
    "log.txt",
    "model.ckpt-70.commit",
    "model.ckpt-70.data-00000-of-00001",
    "model.ckpt-70.index",
    f"model.ckpt-{STEPS}.commit",
    f"model.ckpt-{STEPS}.data-00000-of-00001",
    f"model.ckpt-{STEPS}.index",
    "run.lock",
    "run_fingerprint.json",
    "train_log.jsonl",
  }
  newest = weight_files.find_prefix(str(folder))
  assert newest == str(folder / f"model.ckpt-{STEPS}")


def test_training_lowers_the_loss(trained):
  folder, _ = trained
  lines = script_runner.logged(folder)
  assert [line["step"] for line in lines] == list(range(10, STEPS + 1, 10))
  assert lines[-1]["loss"] < 0.8 * lines[0]["loss"]
  rates = [line["learning_rate"] for line in lines]
  assert max(rates) == pytest.approx(2e-3, rel=0.06)
  assert rates[-1] == pytest.approx(2e-3 / STEPS, rel=1e-3)
  results = dict(read_results(folder / "eval_results.txt"))
  assert results["global_step"] == str(STEPS)
  assert float(results["loss"]) < lines[0]["loss"]


def test_the_final_model_is_a_folder_to_start_from(trained, small_config):
  folder, _ = trained
  final = weights(folder / "final_model")
  saved = weights(folder / f"model.ckpt-{STEPS}")
  assert final.pop("global_step") == STEPS
  assert set(final) == {
    name for name in saved if not weight_files.is_optimizer_state(name)
  }
  for name, value in final.items():
    np.testing.assert_array_equal(value, saved[name], name)
  written = json.loads((folder / "final_model/bert_config.json").read_text())
  assert written.pop("input_settings") == {"max_seq_length": 64}
  assert written == json.loads(small_config.read_text())
  assert (folder / "final_model/vocab.txt").read_bytes() == (
    MODEL / "vocab.txt"
  ).read_bytes()


def test_a_trained_model_is_evaluated_at_its_length(trained, tmp_path):
  """The records have 64 tokens, and --max_seq_length is not given."""
  model = trained[0] / "final_model"
  done = pretrain(
    input_file=GOLDEN / "a.tfrecord",
    max_predictions_per_seq=10,
    do_eval=True,
    bert_config_file=model / "bert_config.json",
    init_checkpoint=model,
    max_eval_steps=1,
    output_dir=tmp_path,
    eager=True,
  )
  results = dict(read_results(tmp_path / "eval_results.txt"))
  assert results["global_step"] == str(STEPS)
  assert "plateau" not in done.err  # Nothing was trained.


def test_a_run_stopped_by_sigterm_resumes_bit_for_bit(tmp_path, trained):
  folder, flags = trained
  flags = {**flags, "do_eval": False, "output_dir": tmp_path / "run"}
  with script_runner.start(
    "run_pretraining.py", verbose=True, **flags
  ) as process:
    log = ""
    for line in process.stderr:
      log += line
      if f"step 10/{STEPS}" in line:
        process.send_signal(signal.SIGTERM)
  assert process.returncode == 75, log
  (step,) = re.findall(r"stopped by SIGTERM; step (\d+) is saved", log)
  assert 10 <= int(step) < STEPS
  assert (tmp_path / "run" / f"model.ckpt-{step}.commit").exists()
  assert not (tmp_path / "run" / "final_model").exists()
  done = pretrain(**flags)
  assert f"resuming from {tmp_path}/run/model.ckpt-{step}\n" in done.err
  for checkpoint in (f"model.ckpt-{STEPS}", "final_model"):
    resumed_runs.assert_same_checkpoints(
      tmp_path / "run" / checkpoint, folder / checkpoint
    )


def read_fillings(text):
  """Returns [(text, [[(word piece, probability), ...], ...]), ...]."""
  fillings = []
  for line in text.splitlines():
    mask = re.fullmatch(r"  \[MASK\] (\d+): (.*)", line)
    if not mask:
      fillings.append((line, []))
      continue
    words = mask[2].split()
    fillings[-1][1].append(
      [(word, float(prob)) for word, prob in zip(words[::2], words[1::2])]
    )
    assert int(mask[1]) == len(fillings[-1][1])
  return fillings


def test_texts_from_the_command_line_and_from_a_file(tmp_path):
  texts = ["the [MASK] of the sea", "[MASK] and [MASK]", "it was [MASK]."]
  (tmp_path / "texts.txt").write_text(f"{texts[2]}\n\n", encoding="utf-8")
  done = fill_mask(text=texts[:2], input_file=tmp_path / "texts.txt", top_k=7)
  fillings = read_fillings(done.out)
  assert [text for text, _ in fillings] == texts
  assert [len(masks) for _, masks in fillings] == [1, 2, 1]
  for _, masks in fillings:
    for words in masks:
      probabilities = [probability for _, probability in words]
      assert len(set(word for word, _ in words)) == 7
      assert probabilities == sorted(probabilities, reverse=True)
      assert 0 < sum(probabilities) <= 1.001
  expected = text_models.load(str(MODEL)).fill_mask(texts[1], top_k=7)
  for words, best in zip(fillings[1][1], expected["fillings"], strict=True):
    assert [word for word, _ in words] == best


@pytest.mark.parametrize(
  "text, fault",
  [
    (" ", "--text: an empty text"),
    ("no mask", "no [MASK]"),
    ([], "pass --text"),
  ],
)
def test_texts_that_cannot_be_filled_are_refused(text, fault):
  assert fault in fill_mask(1, text=text).last_line


def test_texts_are_scored():
  text, pair = "it was the sea", ("it was the sea.", "The [MASK] is up")
  done = fill_mask(score=True, text=[text, " ||| ".join(pair)])
  assert done.code == 0, done.err
  bert = text_models.load(str(MODEL))
  expected, follows = bert.likelihood(text), bert.next_sentence(pair)
  likelihood_line, pair_line = done.out.splitlines()
  *numbers, count, printed_text = likelihood_line.split("\t")
  assert (int(count), printed_text) == (len(expected["tokens"]), text)
  np.testing.assert_allclose(
    [float(number) for number in numbers],
    [expected["perplexity"], expected["log_likelihood"]],
    rtol=1e-5,
  )
  number, printed_text = pair_line.split("\t")
  assert printed_text == " ||| ".join(pair)
  assert float(number) == pytest.approx(follows["probability"], abs=1e-6)


def assert_one_sentence(done, script, *parts):
  assert "Traceback" not in done.err, done.err
  assert done.last_line.startswith(f"{script}: error: ")
  assert done.err.count(f"{script}: ") == 1
  for part in parts:
    assert part in done.last_line


@pytest.fixture
def damaged(tmp_path):
  whole = (GOLDEN / "a.tfrecord").read_bytes()
  (length,) = np.frombuffer(whole[:8], np.int64)
  second = 12 + length + 4  # Where the second record begins.
  flipped = bytearray(whole)
  flipped[second + 100] ^= 1
  (tmp_path / "flipped.tfrecord").write_bytes(flipped)
  (tmp_path / "not_json.json").write_text("{")
  vocab = (MODEL / "vocab.txt").read_text()
  (tmp_path / "maskless.txt").write_text(vocab.replace("[MASK]", "[mask]"))
  (tmp_path / "latin_1.txt").write_bytes(b"a [MASK]\ncaf\xe9 [MASK]\n")
  write_config(tmp_path / "wide.json", hidden_size=64)
  write_config(tmp_path / "few_words.json", vocab_size=99)
  return tmp_path


@pytest.mark.parametrize(
  "flags, parts",
  [
    ({"bert_config_file": "not_json.json"}, ["not_json.json: not JSON"]),
    ({"do_train": False}, ["pass at least one of --do_train, --do_eval"]),
    ({"input_file": "*.none"}, ["no file matches ", "*.none"]),
    (
      {"max_predictions_per_seq": 20},
      ["a.tfrecord: masked_lm_", "has 10 values", "require 20"],
    ),
    ({"output_dir": "not_json.json/run"}, ["not_json.json/run"]),
    ({"init_checkpoint": "none"}, ["no checkpoint at ", "none"]),
    (
      {"do_train": False, "do_eval": True},
      ["no weights: there is no checkpoint in run"],
    ),
    (
      {"do_whole_word_mask": True},
      [
        "--do_whole_word_mask has no effect: the records are masked already; "
        "leave it out"
      ],
    ),
    (
      {"init_checkpoint": MODEL, "bert_config_file": "wide.json"},
      ["bert_model.ckpt: bert/", "48", "64", "configuration"],
    ),
  ],
)
def test_mistakes_in_pretraining(damaged, monkeypatch, flags, parts):
  monkeypatch.chdir(damaged)
  before = sorted(os.listdir())
  flags = {**TRAINING, "num_train_steps": 2, "output_dir": "run", **flags}
  assert_one_sentence(pretrain(code=1, **flags), "run_pretraining.py", *parts)
  left = [
    path.name for path in pathlib.Path("run").rglob("*") if path.is_file()
  ]
  written_first = {"flags.txt", "log.txt", "run.lock", "run_fingerprint.json"}
  assert set(left) <= written_first
  assert sorted(set(os.listdir()) - {"run"}) == before


@pytest.mark.parametrize("do_train", [True, False])
def test_a_damaged_record_is_named(damaged, small_config, do_train):
  model = {"bert_config_file": small_config}
  if not do_train:
    model = {"init_checkpoint": MODEL, "do_eval": True}
  done = pretrain(
    code=1,
    **{
      **TRAINING,
      **model,
      "do_train": do_train,
      "input_file": f"{GOLDEN}/b.tfrecord,{damaged}/flipped.tfrecord",
      "num_train_steps": 10,
      "output_dir": damaged / "run",
    },
  )
  assert_one_sentence(
    done, "run_pretraining.py", "flipped.tfrecord: record 2 is damaged"
  )
  assert not (damaged / "run" / "eval_results.txt").exists()


def test_the_folder_of_another_model_is_refused(damaged, trained):
  folder, flags = trained
  before = sorted(os.listdir(folder))
  flags = {**flags, "bert_config_file": damaged / "wide.json"}
  assert_one_sentence(
    pretrain(code=1, **flags, output_dir=folder),
    "run_pretraining.py",
    f"{folder} belongs to another run: bert_config.hidden_size is 32 there "
    "and 64 now",
  )
  assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
  "flags, parts",
  [
    ({"init_checkpoint": None}, ["pass --init_checkpoint"]),
    ({"init_checkpoint": "none"}, ["no checkpoint at none"]),
    ({"vocab_file": "none.txt"}, ["none.txt"]),
    ({"vocab_file": "maskless.txt"}, ["maskless.txt: '[MASK]' is not among"]),
    (
      {"bert_config_file": "few_words.json"},
      ["vocab.txt has 100 tokens", "vocab_size 99"],
    ),
    ({"text": "no mask"}, ["--text: no [MASK] in 'no mask'"]),
    (
      {"text": "[MASK]" + " a" * 62},
      ["--text: 65 word pieces", "--max_seq_length=64"],
    ),
    (
      {"score": True, "text": "a " * 63},
      ["--text: 65 word pieces", "--max_seq_length=64"],
    ),
    ({"input_file": "none.txt"}, ["no such file: none.txt"]),
    ({"input_file": "latin_1.txt"}, ["latin_1.txt:2: not UTF-8"]),
  ],
)
def test_mistakes_in_filling_masks(damaged, monkeypatch, flags, parts):
  monkeypatch.chdir(damaged)
  flags = {"text": "a [MASK]", **flags}
  assert_one_sentence(fill_mask(code=1, **flags), "fill_mask.py", *parts)
