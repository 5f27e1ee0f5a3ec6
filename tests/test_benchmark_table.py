"""The table of benchmarks/table.py: from numbers to lines of the page."""

import argparse
import pathlib
import runpy
import sys

import numpy as np
import pytest

from common import errors, json_files

ROOT = pathlib.Path(__file__).parents[1]
# Benchmarks are run from their folder and import each other.
sys.path.append(str(ROOT / "benchmarks"))

import cost_growth
import measured_runs
import table_rows
import table_work

TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))


def turns(**contenders):
  """here=[1, 2], peer=[3, 4] -> two turns with these wall times."""
  return [
    {name: {"wall": value} for name, value in zip(contenders, values)}
    for values in zip(*contenders.values())
  ]


def time_row(**options):
  return table_rows.Row(**{
    "title": "job", "measure": "wall", "target": 0.5, "at_most": True, **options
  })


def test_a_ratio_is_that_of_medians_to_the_best_peer():
  found = table_rows.evaluate(
    time_row(),
    turns(here=[1, 9, 2], slow=[50, 50, 50], fast=[5, 4, 3]),
  )
  assert (found.ours, found.peers) == (2, {"slow": 50, "fast": 4})
  assert (found.result, found.is_met, found.reached) == (0.5, True, 1)


def test_a_row_may_be_compared_with_some_peers_only():
  row = time_row(peers="padded")
  found = table_rows.evaluate(row, turns(here=[3], dynamic=[4], padded=[5]))
  assert found.peers == {"padded": 5}
  assert (found.result, found.is_met) == (0.6, False)
  assert found.reached == pytest.approx(0.5 / 0.6)


def test_a_speedup_is_theirs_to_ours():
  row = time_row(result="speedup", target=15, at_most=False)
  found = table_rows.evaluate(row, turns(here=[2], theirs=[28]))
  assert (found.result, found.is_met) == (14, False)


def test_of_speeds_the_largest_is_the_best():
  row = time_row(measure="examples_per_second", target=1, at_most=False)
  measures = {"here": 6, "slow": 2, "fast": 4}
  turn = {k: {"examples_per_second": v} for k, v in measures.items()}
  assert table_rows.evaluate(row, [turn]).result == 1.5


def test_a_row_without_a_peer_or_a_target_is_neither_met_nor_missed():
  assert table_rows.evaluate(time_row(), turns(here=[1])).is_met is None
  row = time_row(target=None, result="own")
  assert table_rows.evaluate(row, turns(here=[1])).is_met is None
  assert table_rows.evaluate(row, [{"here": {}}]) is None


def test_lines_of_the_table():
  row = table_rows.Row("training", "share", 0.88, at_most=False, result="own")
  ours, peer = {"share": 0.724}, {"share": 0.31}
  run = {
    "machine": "a processor", "date": "2026-01-02", "command": "table.py",
    "turns": [{"here": ours, "peer": peer}],
  }
  jobs = {**run, "turns": turns(here=[1.25], Trainer=[240.0])}
  runs = {"step": run, "job": jobs, "again": jobs}
  outcomes = {
    "step": [table_rows.evaluate(row, run["turns"])],
    "job": [table_rows.evaluate(time_row(), jobs["turns"])],
  }
  assert table_rows.markdown(outcomes, runs).split("\n") == [
    "| work | here | peers | result | target | met | run |",
    "|---|---|---|---|---|---|---|",
    "| training | 72.4 % | peer: 31.0 % | 72.4 % | ≥ 88.0 % | **no** | 1 |",
    "| job | 1.25 s | Trainer: 240 s | 0.01 × | ≤ 0.50 × | yes | 1 |",
    "",
    "1. a processor; 2026-01-02; median of 1 turn; `table.py`",
  ]


def test_the_table_replaces_the_one_between_the_markers():
  page = "# Speed\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\nx"
  new = table_rows.replace_table(page, "new")
  assert new == page.replace("old", "new")
  for wrong in ("# Speed", page + page, page.replace("end", "begin")):
    with pytest.raises(errors.InputError, match="expected one line"):
      table_rows.replace_table(wrong, "new")


def test_the_page_of_the_project_has_the_markers():
  page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
  for name in ("make bench", "cost growth"):
    assert "\nnew table\n" in table_rows.replace_table(page, "new table", name)


def test_the_chart_is_drawn(tmp_path):
  pytest.importorskip("matplotlib")
  outcomes = [
    table_rows.evaluate(time_row(title=str(ours)), turns(here=[ours], peer=[4]))
    for ours in (1, 3)
  ]
  table_rows.draw(outcomes, tmp_path / "chart.png")
  assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_every_work_has_its_own_name_and_rows():
  works = table_work.all_works()
  assert len({work.name for work in works}) == len(works)
  titles = [row.title for work in works for row in work.rows]
  assert len(set(titles)) == len(titles)
  assert {name for work in works for name in work.needs} <= set(table_work.DATA)


def run_table(tmp_path, monkeypatch, works, **values):
  """Runs table.py with works that need no other program."""
  page = tmp_path / "page.md"
  page.write_text("<!-- make bench: begin --><!-- make bench: end -->")
  arguments = argparse.Namespace(**{
    "rows": "*", "dtypes": "float32", "repeats": 2, "list": False,
    "cores": None, "print_only": True, "page": page,
    "results_file": tmp_path / "results.json", **values,
  })
  scope = TABLE["main"].__globals__
  monkeypatch.setitem(scope, "parse_arguments", lambda: arguments)
  monkeypatch.setitem(scope, "compile_modules", lambda: None)
  monkeypatch.setattr(table_work, "all_works", lambda: works)
  TABLE["main"]()
  return json_files.read(str(arguments.results_file))


def made_up_work(name, seconds, **options):
  measured = iter(seconds)

  def turn(arguments, folder):
    assert folder.is_dir()
    return {"here": {"wall": next(measured)}, "peer": {"wall": 4}}

  return table_work.Work(name, (), turn, (time_row(title=name),), **options)


def test_a_later_call_replaces_its_own_rows_only(
  tmp_path, monkeypatch, capsys
):
  first = made_up_work("a", [1, 1, 3, 3]), made_up_work("b", [2, 2])
  run_table(tmp_path, monkeypatch, first)
  runs = run_table(tmp_path, monkeypatch, first, rows="a")
  walls = {
    name: [turn["here"]["wall"] for turn in run["turns"]]
    for name, run in runs.items()
  }
  assert walls == {"a": [3, 3], "b": [2, 2]}
  table = capsys.readouterr().out
  assert "| a | 3.00 s | peer: 4.00 s | 0.75 × | ≤ 0.50 × | **no** |" in table
  assert "| b | 2.00 s | peer: 4.00 s | 0.50 × | ≤ 0.50 × | yes |" in table


def test_works_of_other_dtypes_and_without_data_are_left_out(
  tmp_path, monkeypatch, capsys
):
  works = (
    made_up_work("kept", [1, 1]),
    made_up_work("other", [], dtype="bfloat16"),
    table_work.Work("data", ("text",), None, ()),
  )
  runs = run_table(tmp_path, monkeypatch, works, text=None)
  assert list(runs) == ["kept"]
  assert "data is left out: it needs --text" in capsys.readouterr().err
  with pytest.raises(errors.InputError, match="no such work"):
    run_table(tmp_path, monkeypatch, works, rows="nothing")


def test_shown_commands_name_no_folder_of_a_machine():
  shown = TABLE["shown_command"]([
    "table.py", "--rows=job/*", "--glue=/data/glue", "--peer_python=/p/python"
  ])
  assert shown == "benchmarks/table.py --rows=job/* --glue=glue"


def test_the_cost_of_a_command():
  loop = "import time; s = time.process_time\nwhile s() < 0.2: pass"
  cost = measured_runs.measure([sys.executable, "-c", loop])
  assert cost.processor >= 0.2 and cost.seconds >= 0.2
  with pytest.raises(errors.InputError, match="code 1: ValueError: bad"):
    measured_runs.measure([sys.executable, "-c", "raise ValueError('bad')"])


def test_the_cost_until_something_happens(tmp_path):
  done = tmp_path / "done"
  program = f"open({str(done)!r}, 'w').close(); import time; time.sleep(60)"
  cost = measured_runs.measure(
    [sys.executable, "-c", program], until=done.exists
  )
  assert cost.seconds < 30
  with pytest.raises(errors.InputError, match="ended with code 0"):
    measured_runs.measure([sys.executable, "-c", ""], until=lambda: False)


def test_costs_on_a_straight_line(tmp_path):
  line = cost_growth.fit_line([1, 2, 4], np.array([5.0, 7.0, 11.0]))
  np.testing.assert_allclose(line, (3, 2, 1))
  bent = cost_growth.fit_line([1, 2, 3], np.array([1.0, 4.0, 9.0]))
  np.testing.assert_allclose(bent[:2], (-10 / 3, 4))
  assert 0.9 < bent.fit < 1


def test_mixes_of_lengths_have_equally_many_tokens(tmp_path):
  path = tmp_path / "train.tsv"
  found = {
    cost_growth.write_examples(path, lengths, 40)
    for lengths in cost_growth._MIXES.values()
  }
  assert found == {40 * 30}
  header, *rows = path.read_text().splitlines()
  texts, labels = zip(*(row.split("\t") for row in rows))
  assert header == "text\tlabel" and set(labels) == {"yes", "no"}
  assert sum(len(text.split()) + 2 for text in texts) == 40 * 30


def test_the_table_and_the_figure_of_growing_costs(tmp_path):
  points = [
    ("mix", size, measured_runs.Cost(0, 2 + size / 1000, 100 + size / 100))
    for size in (1000, 2000, 4000)
  ]
  series = cost_growth.Series("training", "real tokens", points)
  last = cost_growth.markdown([series]).split("\n")[-1]
  assert last == (
    "| training | 1,000 to 4,000 real tokens | 2.0 s + 1 s per 1,000 real "
    "tokens | 1.000 | 100 MB + 10 MB per 1,000 real tokens | 1.000 |"
  )
  pytest.importorskip("matplotlib")
  cost_growth.draw([series], tmp_path / "figure.png")
  assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
