"""The steps of run_squad.py, without a network."""

import types

import pytest

from common import run_settings
from running import reports
from squad import answers, data, job
from training import run_folder


def answer(qas_id, text, probability):
  candidate = answers.Candidate(text, probability, 1.0, 1.0)
  return answers.Answer(qas_id, text, [candidate], text)


def test_the_report_has_the_wrong_answers_and_not_the_right_ones():
  questions = [
    data.Question("a", "Who?", [], answers=("Anna", "Anna Lang")),
    data.Question("b", "When?", []),
    data.Question("c", "What?", [], answers=("a lamp",)),
    data.Question("d", "Why?", [], answers=("dark",)),
  ]
  found = [
    answer("a", "Anna", 0.5),
    answer("b", "today", 0.25),
    answer("c", "", 0.75),
    answer("d", "so dark", 1.0),
  ]
  points = {"a": (1, 1.0), "b": (0, 0.0), "c": (0, 0.0), "d": (0, 0.75)}
  report = job.report_of(
    data.SquadFile("f.json", questions, True, []), found, {"f1": 2.0}, points
  )
  assert report.use == "question-answering" and report.results == {"f1": 2.0}
  # A worse F1 counts most; then, how sure the model is.
  assert report.mistakes == [
    reports.Mistake(1.0025, "When?", "(no answer)", "today", 0.25),
    reports.Mistake(1.0075, "What?", "a lamp", "(no answer)", 0.75),
    reports.Mistake(0.26, "Why?", "dark", "so dark", 1.0),
  ]


@pytest.mark.parametrize(
  "origin, path, do_train, folders",
  [
    ("init", "start/bert_model.ckpt", False, ["out", "start"]),
    # The training has changed the weights that the folder's value is for.
    ("init", "start/bert_model.ckpt", True, ["out"]),
    ("resume", "out/model.ckpt-3", False, ["out"]),
    ("random", None, False, ["out"]),
  ],
)
def test_a_threshold_is_looked_up_with_the_weights_it_is_for(
  origin, path, do_train, folders
):
  asked = []
  run = types.SimpleNamespace(
    _settings=run_settings.Settings(
      {"output_dir": "out", "do_train": do_train}
    ),
    _start=run_folder.StartingPoint(origin, path),
    threshold=types.SimpleNamespace(look_up=asked.append),
  )
  job.SquadRun.look_up_threshold(run)
  assert asked == [folders]


class StepsOfRun:
  """A SquadRun whose answerer and files are known."""

  def __init__(self, folder, monkeypatch, *, is_chief=True, is_labelled=True):
    self.written, self.reports = [], []
    monkeypatch.setattr(
      job.squad_answers, "write", lambda *values: self.written.append(values)
    )
    questions = [data.Question("a", "Who?", [], answers=("Anna",))]
    squad_file = data.SquadFile("f.json", questions, is_labelled, [])
    self.file = types.SimpleNamespace(file=squad_file)
    self.run = run = object.__new__(job.SquadRun)
    run._settings = run_settings.Settings(
      {
        "output_dir": str(folder),
        "predict_batch_size": 3,
        "eval_batch_size": 5,
        "do_train": False,
        "pad_to_max_length": False,
        "max_seq_length": 6,
      }
    )
    run._is_chief, run._step = is_chief, 7
    run._inputs = {"predict": self.file}
    run._report = reports.Report("question-answering", {})
    self.answers = [answer("a", "Anna", 0.5)]
    run._answerer = types.SimpleNamespace(
      answers=lambda file, size: self.answers if size == 3 else None,
      scores=lambda *_: ({"f1": 100.0}, {"a": (1, 1.0)}),
    )
    monkeypatch.setattr(
      job.reports,
      "write_all",
      lambda _, report: self.reports.append(report.results),
    )


@pytest.mark.parametrize("evaluated", [None, []])
def test_a_prediction_keeps_the_results_of_an_evaluation(
  tmp_path, monkeypatch, capsys, evaluated
):
  steps = StepsOfRun(tmp_path, monkeypatch)
  steps.run.predict(evaluated)
  assert steps.written == [(str(tmp_path), steps.answers)]
  assert capsys.readouterr().out == "f1 = 100.0\nglobal_step = 7\n"
  is_first = evaluated is None
  assert (tmp_path / "eval_results.txt").exists() == is_first
  steps.run.write_report()
  assert steps.reports == [{"f1": 100.0}] * is_first


def test_an_evaluations_answers_are_not_computed_again(tmp_path, monkeypatch):
  steps = StepsOfRun(tmp_path, monkeypatch)
  steps.run._inputs["eval"] = steps.file
  steps.run._answerer = None
  steps.run.predict(["evaluated"])
  assert steps.written == [(str(tmp_path), ["evaluated"])]


@pytest.mark.parametrize(
  "is_chief, is_labelled", [(True, False), (False, True)]
)
def test_what_has_no_answers_is_not_scored_and_only_the_chief_writes(
  tmp_path, monkeypatch, capsys, is_chief, is_labelled
):
  steps = StepsOfRun(
    tmp_path, monkeypatch, is_chief=is_chief, is_labelled=is_labelled
  )
  steps.run.predict()
  steps.run.write_report()
  assert len(steps.written) == is_chief
  assert not capsys.readouterr().out and not steps.reports
  assert not list(tmp_path.iterdir())


class Threshold:
  """Notes where it is written."""

  def __init__(self, is_auto):
    self.is_auto, self.written = is_auto, []

  def write(self, folder):
    self.written.append(folder)

  def write_next_to(self, folder):
    self.written.append(f"next to {folder}")


@pytest.mark.parametrize(
  "origin, is_auto, is_chief, written",
  [
    ("init", True, True, ["{}", "next to {}/final_model", "next to start"]),
    ("resume", True, True, ["{}", "next to {}/final_model"]),
    ("init", False, True, []),
    ("init", True, False, []),
  ],
)
def test_an_evaluation_stores_its_threshold_with_each_copy_of_its_weights(
  tmp_path, monkeypatch, capsys, origin, is_auto, is_chief, written
):
  steps = StepsOfRun(tmp_path, monkeypatch, is_chief=is_chief)
  run, asked, logged = steps.run, [], []
  monkeypatch.setattr(
    job.trackers, "write_evaluation", lambda *values: logged.append(values)
  )
  run._start = run_folder.StartingPoint(origin, "start/bert_model.ckpt")
  run._inputs["eval"] = steps.file
  run.threshold = Threshold(is_auto)
  run._answerer.answers = lambda file, size, find_threshold: (
    asked.append((size, find_threshold)) or steps.answers
  )
  assert run.evaluate() == (steps.answers, {"f1": 100.0})
  assert asked == [(5, is_auto)]
  expected = [place.format(tmp_path) for place in written]
  assert run.threshold.written == expected
  if not is_chief:
    assert not capsys.readouterr().out and not list(tmp_path.iterdir())
    assert not logged
    return
  assert capsys.readouterr().out == "f1 = 100.0\nglobal_step = 7\n"
  assert logged == [(str(tmp_path), 7, {"f1": 100.0})]
  run.write_report()
  assert steps.reports == [{"f1": 100.0}]


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("may_vary", [False, True])
def test_the_training_data_of_a_run(tmp_path, monkeypatch, pads, may_vary):
  """As in the original, an epoch's size counts questions, not windows."""
  steps, specs = StepsOfRun(tmp_path, monkeypatch), []
  run = steps.run
  run._settings = run._settings.replace(pad_to_max_length=pads)
  run._model, run._config, run._strategy, run._start = None, None, None, "start"
  run._inputs = {
    "train": types.SimpleNamespace(
      file=steps.file.file, records="a.tf_record", num_records=9
    ),
    "eval": steps.file,
  }
  run._answerer.result_names = lambda file: ["f1"]
  monkeypatch.setattr(job.run_setup, "shapes_may_vary", lambda *_: may_vary)
  monkeypatch.setattr(job.harness, "training_length", lambda _, count: count)
  monkeypatch.setattr(
    job.squad_model, "objective", lambda _, mask_padding: mask_padding
  )
  monkeypatch.setattr(
    job.harness, "train", lambda _, spec, start: specs.append(spec) or 12
  )
  run.train()
  (spec,) = specs
  records = spec.data()
  assert records.trim == (may_vary and not pads)
  assert records.num_records == 9 and records.files == ["a.tf_record"]
  assert {"start_positions", "end_positions"} <= records.features.keys()
  assert spec.objective == (not pads)
  assert spec.length == 1 and spec.result_names == ["f1"]
  assert run._step == 12
  run._evaluate = lambda: ("answers", {"f1": 1.0}, "points")
  assert spec.evaluate() == {"f1": 1.0}
