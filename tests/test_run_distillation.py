"""run_classifier.py with a teacher, as a user types it."""

import json

import numpy as np
import pytest

import resumed_runs
import script_runner
import stored_weights
import tiny_model

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
  theirs = stored_weights.read(str(files / "run" / "final_model"))
  ours = stored_weights.read(str(tmp_path / "final_model"))
  assert "output_weights" in ours
  del ours["global_step"], theirs["global_step"]
  for name, value in ours.items():
    np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def weights_of(folder):
  return stored_weights.read(str(folder / "final_model"))


@pytest.mark.slow
def test_texts_without_labels_teach_as_labels_that_do_not_count(
  files, tmp_path
):
  rows = (files / "train.csv").read_text().splitlines()
  texts = "\n".join(row.rpartition(",")[0] for row in rows) + "\n"
  (tmp_path / "texts.csv").write_text(texts)
  options = {"num_train_epochs": 2.0, "log_steps": 1}
  learn(files, tmp_path / "labelled", distillation_weight=1.0, **options)
  done = learn(
    files, tmp_path / "texts", train_file=None, **options,
    unlabelled_file=tmp_path / "texts.csv", do_eval=True,
    eval_file=files / "train.csv",
  )
  assert "16 texts to train on have no label" in done.err
  expected, found = weights_of(tmp_path / "labelled"), weights_of(
    tmp_path / "texts"
  )
  for name, value in expected.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)
  # The classes are the teacher's.
  config = tmp_path / "texts" / "final_model" / "bert_config.json"
  assert json.loads(config.read_text())["id2label"] == {"0": "bad", "1": "good"}


@pytest.mark.slow
def test_a_run_with_and_without_labels_resumes(files, tmp_path):
  (tmp_path / "texts.csv").write_text("text\nthe warm film\na dull film\n" * 2)

  def six_steps(folder):
    return learn(
      files, folder, unlabelled_file=tmp_path / "texts.csv",
      num_train_epochs=3.0, max_train_steps=6, save_checkpoints_steps=3,
      log_steps=1,
    )

  resumed_runs.assert_same_weights(six_steps, tmp_path)
  last = script_runner.logged(tmp_path / "whole")[-1]
  assert last["soft_labels_loss"] > 0


def test_texts_that_the_task_cannot_take_are_refused(files, tmp_path):
  header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
  (tmp_path / "train.tsv").write_text(header + "1\t1\t2\tthe film\tfilm\n")
  script_runner.refuse(
    "run_classifier.py", "MRPC has pairs; pass --text_b_column", do_train=True,
    task_name="MRPC", data_dir=tmp_path, output_dir=tmp_path / "run",
    teacher_checkpoint=files / "run" / "final_model", max_seq_length=8,
    unlabelled_file=files / "train.csv",
    vocab_file=files / "teacher" / "vocab.txt",
    bert_config_file=files / "teacher" / "bert_config.json",
  )
