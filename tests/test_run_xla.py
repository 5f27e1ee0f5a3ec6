"""Tests that XLA compiles a training step only once."""

import random

import script_runner
import tiny_model

VOCAB = script_runner.ROOT / "tests" / "data" / "ner_sample_vocab.txt"


def test_xla_compiles_one_step(tmp_path):
  words = VOCAB.read_text(encoding="utf-8").splitlines()[20:]
  rng = random.Random(1)
  rows = [
    " ".join(rng.choices(words, k=rng.randint(3, 20))) + f",{number % 2}"
    for number in range(48)
  ]
  (tmp_path / "train.csv").write_text("\n".join(["text,label", *rows, ""]))
  config = tiny_model.tiny(vocab_size=169, max_position_embeddings=64)
  (tmp_path / "bert_config.json").write_text(config.to_json_string())
  done = script_runner.succeed(
    "run_classifier.py",
    do_train=True,
    train_file=tmp_path / "train.csv",
    vocab_file=VOCAB,
    do_lower_case=False,
    bert_config_file=tmp_path / "bert_config.json",
    max_seq_length=64,
    train_batch_size=8,
    num_train_epochs=1,
    log_steps=1,
    jit_compile="true",
    output_dir=tmp_path / "out",
    environment={"XLA_FLAGS": f"--xla_dump_to={tmp_path / 'xla'}"},
  )
  assert "step 6/6" in done.err
  modules = [path.name for path in (tmp_path / "xla").glob("*_step_*.txt")]
  compiled = [name for name in modules if "before_optimizations" in name]
  assert len(compiled) == 1, compiled
