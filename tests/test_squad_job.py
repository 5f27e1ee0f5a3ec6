"""What the steps of run_squad.py say."""

from common import run_settings
from squad import job


def test_results_that_are_not_of_the_best_weights_are_named(caplog):
  settings = run_settings.Settings({"output_dir": "out", "save_best": "f1"})
  for step in (None, 30):
    job.say_which_is_best(settings, {"step": step, "value": 80.5}, 30)
  assert not caplog.records
  job.say_which_is_best(settings, {"step": 20, "value": 80.5}, 30)
  (said,) = caplog.messages
  assert said.startswith("final_model and what follows are of step 30; f1 was")
  assert "best (80.5) at step 20" in said
  assert "--model_dir=out/best_model" in said


def test_results_are_printed_and_written_in_order(tmp_path, capsys):
  results = {"global_step": 3, "f1": 50.0, "exact": 25.0}
  lines = "exact = 25.0\nf1 = 50.0\nglobal_step = 3\n"
  job.write_results(results)
  job.write_results(results, str(tmp_path))
  assert capsys.readouterr().out == 2 * lines
  assert (tmp_path / "eval_results.txt").read_text() == lines
