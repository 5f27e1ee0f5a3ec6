"""The scripts with --pack_sequences, compiled by XLA, as a user types them."""

import json
import random

import pytest

import resumed_runs
import script_runner
import tiny_model
from script_runner import logged

DATA = script_runner.ROOT / "tests" / "data"
VOCAB = DATA / "ner_sample_vocab.txt"
LENGTH = 64
STEPS = {
  "do_train": True, "train_batch_size": 8, "jit_compile": "true",
  "save_checkpoints_steps": 3, "log_steps": 1, "learning_rate": 1e-3,
}


def words(rng, count):
  lines = VOCAB.read_text(encoding="utf-8").splitlines()
  return " ".join(rng.choice(lines[20:]) for _ in range(count))


@pytest.fixture(scope="module")
def flags_of(tmp_path_factory):
  folder = tmp_path_factory.mktemp("data")
  config = tiny_model.tiny(
    vocab_size=169, max_position_embeddings=LENGTH, initializer_range=0.02
  )
  path = folder / "bert_config.json"
  path.write_text(config.to_json_string())
  rng = random.Random(1)
  rows = [f"{words(rng, rng.randint(3, 20))},{n % 2}" for n in range(48)]
  (folder / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
  paragraphs = []
  for number in range(48):
    context = words(rng, rng.randint(5, 15))
    answer = {"text": context.split()[0], "answer_start": 0}
    question = {"id": str(number), "question": "Wo ?", "answers": [answer]}
    paragraphs.append({"context": context, "qas": [question]})
  (folder / "train.json").write_text(
    json.dumps({"version": "1.1", "data": [{"paragraphs": paragraphs}]})
  )
  text = {
    "vocab_file": VOCAB, "do_lower_case": False, "num_train_epochs": 1,
    "max_train_steps": 6,
  }
  flags = {
    "run_classifier.py": {**text, "train_file": folder / "train.csv"},
    "run_squad.py": {
      **text, "train_file": folder / "train.json", "max_query_length": 4,
    },
    "run_ner.py": {**text, "train_file": DATA / "ner_sample_train.conll"},
  }
  shared = {"bert_config_file": path, "max_seq_length": LENGTH, **STEPS}
  return {name: {**shared, **own} for name, own in flags.items()}


@pytest.fixture
def pretraining_flags(flags_of, tmp_path):
  rng = random.Random(1)
  lines = [words(rng, rng.randint(2, 6)) for _ in range(150)]
  documents = ["\n".join(lines[n : n + 3]) for n in range(0, 150, 3)]
  (tmp_path / "text.txt").write_text("\n\n".join(documents) + "\n")
  script_runner.succeed(
    "create_pretraining_data.py", input_file=tmp_path / "text.txt",
    output_file=tmp_path / "records", vocab_file=VOCAB, do_lower_case=False,
    max_seq_length=LENGTH, max_predictions_per_seq=5, dupe_factor=2,
  )
  return {
    **STEPS, "bert_config_file": flags_of["run_ner.py"]["bert_config_file"],
    "input_file": tmp_path / "records", "max_seq_length": LENGTH,
    "max_predictions_per_seq": 5, "num_train_steps": 6, "num_warmup_steps": 1,
  }


@pytest.mark.slow
@pytest.mark.parametrize("script", [
  "run_pretraining.py", "run_classifier.py", "run_squad.py", "run_ner.py"
])
def test_packed_runs_are_fuller_and_resume(request, tmp_path, script):
  if script == "run_pretraining.py":
    given = request.getfixturevalue("pretraining_flags")
  else:
    given = request.getfixturevalue("flags_of")[script]

  def six_steps(folder, **flags):
    return script_runner.succeed(script, **given, output_dir=folder, **flags)

  resumed_runs.assert_same_weights(
    lambda folder: six_steps(folder, pack_sequences=True), tmp_path
  )
  six_steps(tmp_path / "plain")
  packed, plain = logged(tmp_path / "whole"), logged(tmp_path / "plain")
  for step in range(6):
    examples = "tokens_per_example"
    assert packed[step][examples] == plain[step][examples]
    assert packed[step]["fill_rate"] > 1.5 * plain[step]["fill_rate"]


@pytest.mark.slow
@pytest.mark.parametrize("script", [
  "run_classifier.py", "run_squad.py", "run_ner.py"
])
def test_a_bilstm_on_top_resumes_and_stays_with_the_model(
  flags_of, tmp_path, script
):
  flags = flags_of[script]
  resumed_runs.assert_same_weights(lambda folder: script_runner.succeed(
    script, **flags, output_dir=folder, bilstm_on_top=True, pack_sequences=True,
  ), tmp_path)
  model = tmp_path / "whole" / "final_model"
  script_runner.succeed(
    script, do_predict=True, predict_file=flags["train_file"], model_dir=model,
    output_dir=tmp_path / "predicted",
  )
  assert len(list((tmp_path / "predicted").glob("*predict*"))) > 0
  # As any other model, without the flag.
  values = json.loads((model / "bert_config.json").read_text())
  assert values["bilstm_on_top"] is True
  done = script_runner.run(
    "convert_checkpoint.py", input=model, output=tmp_path / "hf",
    to="huggingface",
  )
  assert done.code == 1 and "for a BiLSTM on top" in done.last_line


@pytest.mark.parametrize(
  "pack_sequences", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_xla_compiles_one_step(flags_of, tmp_path, pack_sequences):
  done = script_runner.succeed(
    "run_classifier.py", **flags_of["run_classifier.py"],
    output_dir=tmp_path / "out", pack_sequences=pack_sequences,
    environment={"XLA_FLAGS": f"--xla_dump_to={tmp_path / 'xla'}"},
  )
  assert "step 6/6" in done.err
  modules = [path.name for path in (tmp_path / "xla").glob("*_step_*.txt")]
  compiled = [name for name in modules if "before_optimizations" in name]
  assert len(compiled) == 1, compiled
