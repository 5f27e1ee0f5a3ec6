"""Tests of the files for GLUE's server."""

import pytest

from classification import glue, glue_submission
from common import errors

GLUE = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli",
        "ax"]


def write(tmp_path, name, split, predictions):
  path = glue_submission.write(
    str(tmp_path / "new"), glue.find(name), split, predictions
  )
  with open(path, encoding="utf-8", newline="") as stream:
    return stream.read()


def test_every_test_set_of_glue_has_its_file():
  expected = {
    (name, split)
    for name in GLUE
    for split in glue.splits(glue.find(name), "predict")
  }
  assert set(glue_submission.FILES) == expected
  names = sorted(name for name, _ in glue_submission.FILES.values())
  assert names == [
    "AX.tsv", "CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "MRPC.tsv", "QNLI.tsv",
    "QQP.tsv", "RTE.tsv", "SST-2.tsv", "STS-B.tsv", "WNLI.tsv",
  ]


@pytest.mark.parametrize("name, split", glue_submission.FILES)
def test_a_file_has_an_index_and_a_prediction_for_every_row(
  tmp_path, name, split
):
  task = glue.find(name)
  predictions = [*task.labels[::-1], task.labels[0]] if task.labels else [2.5]
  text = write(tmp_path, name, split, predictions)
  lines = text.split("\n")
  assert lines[0] == "index\tprediction" and lines[-1] == ""
  if task.labels:
    assert lines[1:-1] == [f"{n}\t{p}" for n, p in enumerate(predictions)]
  else:
    assert lines[1:-1] == ["0\t2.500"]


def test_scores_are_cut_to_the_scale_and_have_three_decimals(tmp_path):
  text = write(tmp_path, "sts-b", "test", [-0.3, 5.2, 3.14159, 0.0])
  assert text == "index\tprediction\n0\t0.000\n1\t5.000\n2\t3.142\n3\t0.000\n"


def test_another_number_of_rows_than_the_servers_is_said(tmp_path, caplog):
  write(tmp_path, "wnli", "test", ["0"] * 146)
  assert not caplog.records
  write(tmp_path, "wnli", "test", ["0"] * 145)
  (record,) = caplog.records
  assert "145 predictions, but the server expects 146" in record.getMessage()


@pytest.mark.parametrize("name", sorted(set(glue.TASKS) - set(GLUE)))
def test_a_task_that_the_server_does_not_know_is_refused(tmp_path, name):
  with pytest.raises(errors.InputError, match="is no task of GLUE's server"):
    glue_submission.check_task(glue.find(name))
  with pytest.raises(errors.InputError, match="is no task of GLUE's server"):
    write(tmp_path, name, "test", [])


def test_a_prediction_that_is_no_class_is_a_fault_of_ours(tmp_path):
  with pytest.raises(ValueError, match="'yes' is none of"):
    write(tmp_path, "rte", "test", ["yes"])
  assert not (tmp_path / "new").exists()
