"""What the steps of run_squad.py say."""

from squad import job


def test_results_are_printed_and_written_in_order(tmp_path, capsys):
  results = {"global_step": 3, "f1": 50.0, "exact": 25.0}
  lines = "exact = 25.0\nf1 = 50.0\nglobal_step = 3\n"
  job.write_results(results)
  job.write_results(results, str(tmp_path))
  assert capsys.readouterr().out == 2 * lines
  assert (tmp_path / "eval_results.txt").read_text() == lines
