"""What the steps of run_squad.py say."""

import types

import pytest

from common import run_settings
from squad import answerer, answers, data, job, scores


@pytest.mark.parametrize("version_2", [False, True])
def test_an_evaluation_compares_each_answer_once(
    version_2, tmp_path, monkeypatch):
  texts = {"1": "the cat", "2": "a dog"}
  file = data.SquadFile("a.json", [
    data.Question("1", "Who?", [], answers=("cat",)),
    data.Question("2", "Whose?", [], answers=("black dog",)),
  ], True, [])
  predicted = [
    answers.Answer(
      name, text, [answers.Candidate(text, 0.5, 1.0, 1.0)], text, -1.0
    ) for name, text in texts.items()
  ]
  threshold = types.SimpleNamespace(is_auto=False, value=0.0)
  step = object.__new__(job.Job)
  step._settings = run_settings.Settings({
    "output_dir": str(tmp_path), "do_train": False, "eval_batch_size": 1,
  })
  step._is_chief, step.threshold = True, threshold
  step._start, step._step = types.SimpleNamespace(path=None), 3
  step._inputs = {"eval": types.SimpleNamespace(file=file)}
  step._answerer = object.__new__(answerer.Answerer)
  step._answerer.threshold = threshold
  step._answerer.answers = lambda *_, **__: predicted
  step._answerer._options = answers.AnswerOptions(
    version_2_with_negative=version_2
  )
  compared, compare = [], scores.compare
  monkeypatch.setattr(scores, "compare", lambda text, *rest, **options: (
    compared.append(text) or compare(text, *rest, **options)
  ))
  step.evaluate()
  step.write_report()
  assert compared == ["the cat", "a dog"]
  page = (tmp_path / "report.html").read_text("utf-8")
  # 2 * 1 common word / (1 + 2 words); "cat" is right.
  assert "<td>Whose?</td><td>black dog</td><td>a dog</td>" in page
  assert "<td>Who?</td>" not in page
  exact = "<td>exact</td>" if version_2 else "<td>exact_match</td>"
  assert f'{exact}<td class="number">50</td>' in page
  assert '<td>f1</td><td class="number">83.3333</td>' in page


def test_results_are_printed_and_written_in_order(tmp_path, capsys):
  results = {"global_step": 3, "f1": 50.0, "exact": 25.0}
  lines = "exact = 25.0\nf1 = 50.0\nglobal_step = 3\n"
  job.write_results(results)
  job.write_results(results, str(tmp_path))
  assert capsys.readouterr().out == 2 * lines
  assert (tmp_path / "eval_results.txt").read_text() == lines
