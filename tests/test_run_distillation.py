"""run_classifier.py with a teacher, as a user types it."""


import numpy as np
import pytest

import script_runner
import tiny_model
from checkpoints import weight_files

WORDS = "warm clever dull cold film the was".split()
TEXTS = ["the warm film", "clever film was warm", "dull film", "the cold film"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
  folder = tmp_path_factory.mktemp("files")
  rows = "".join(
    f"{text},{'good' if number < 2 else 'bad'}\n"
    for number, text in enumerate(TEXTS)
  )
  (folder / "train.csv").write_text(f"text,label\n{rows * 4}")
  for name, layers in (("teacher", 2), ("student", 1)):
    (folder / name).mkdir()
    tiny_model.write_shape(
      folder / name, WORDS, num_hidden_layers=layers, initializer_range=0.2
    )
  classify(
    files=folder, config="teacher", output_dir=folder / "run",
    num_train_epochs=20.0,
  )
  return folder


def classify(files, config, output_dir, **flags):
  return script_runner.succeed("run_classifier.py", **{
    "do_train": True, "train_file": files / "train.csv",
    "bert_config_file": files / config / "bert_config.json",
    "vocab_file": files / config / "vocab.txt", "max_seq_length": 8,
    "train_batch_size": 8, "learning_rate": 3e-3, "num_train_epochs": 1.0,
    "output_dir": output_dir, **flags,
  })


def learn(files, output_dir, **flags):
  return classify(
    files, "student", output_dir, init_from_teacher=True,
    teacher_checkpoint=files / "run" / "final_model", **flags,
  )


@pytest.mark.slow
def test_a_student_of_a_teacher_alone_gives_its_answers(files, tmp_path):
  """With weight 1 labels have no part: here all of them say `good`."""
  wrong = (files / "train.csv").read_text().replace(",bad", ",good")
  (tmp_path / "wrong.csv").write_text(wrong)
  done = classify(
    files, "student", tmp_path / "run", train_file=tmp_path / "wrong.csv",
    teacher_checkpoint=files / "run" / "final_model",
    labels="bad,good", distillation_weight=1.0, distillation_temperature=1.0,
    num_train_epochs=20.0, do_eval=True, eval_file=files / "train.csv",
    log_steps=1,
  )
  assert "eval_accuracy = 1.0" in done.err
  first, *_, last, _ = script_runner.logged(tmp_path / "run")
  assert first["loss"] == pytest.approx(first["soft_labels_loss"], rel=1e-5)
  assert last["soft_labels_loss"] < 0.5 * first["soft_labels_loss"]


def test_a_student_starts_with_the_teachers_layers(files, tmp_path):
  learn(files, tmp_path, learning_rate=0.0)
  theirs = weight_files.read_weights(str(files / "run" / "final_model"))
  ours = weight_files.read_weights(str(tmp_path / "final_model"))
  assert "output_weights" in ours
  del ours["global_step"], theirs["global_step"]
  for name, value in ours.items():
    np.testing.assert_array_equal(value, theirs[name], err_msg=name)
