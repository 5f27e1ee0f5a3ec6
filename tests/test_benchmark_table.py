"""The table of benchmarks/table.py: from numbers to lines of the page."""

import argparse
import runpy
import shutil
import sys

import pytest

import engine_works
import measured_runs
import table_plan
import table_rows
import table_work
from common import errors, json_files
from script_runner import ROOT

TABLE = runpy.run_path(str(ROOT / "benchmarks" / "table.py"))


def turns(**contenders):
  """here=[1, 2], peer=[3, 4] -> two turns with these wall times."""
  return [
    {
      name: {"wall": value}
      for name, value in zip(contenders, values, strict=True)
    }
    for values in zip(*contenders.values(), strict=True)
  ]


def time_row(**options):
  return table_rows.Row(**{
    "title": "job", "measure": "wall", "target": 0.5, "at_most": True, **options
  })


@pytest.mark.parametrize(
  "options, contenders, result, is_met",
  [
    # Medians, and of the peers the best one.
    ({}, dict(here=[1, 9, 2], slow=[50, 50, 50], fast=[5, 4, 3]), 0.5, True),
    ({"peers": "padded"}, dict(here=[3], dynamic=[4], padded=[5]), 0.6, False),
    ({"result": "speedup", "target": 15, "at_most": False},
     dict(here=[2], theirs=[28]), 14, False),
    # Of several of ours the best one, too.
    ({"ours": "int8"}, {"int8, a": [4], "int8, b": [2], "c": [8]}, 0.25, True),
    ({"ours": "int8", "result": "difference", "peers": "f", "target": -0.5,
      "at_most": False}, dict(int8=[2], f=[3], better=[1]), -1, False),
    # Without a target: neither met nor missed.
    ({"target": None, "result": "own"}, dict(here=[1]), 1, None),
  ],
)
def test_a_row_is_compared_with_its_peers(options, contenders, result, is_met):
  found = table_rows.evaluate(time_row(**options), turns(**contenders))
  assert (found.result, found.is_met) == (result, is_met)


def test_of_speeds_the_largest_is_the_best():
  row = time_row(measure="examples_per_second", target=1, at_most=False)
  measures = {"here": 6, "slow": 2, "fast": 4}
  turn = {k: {"examples_per_second": v} for k, v in measures.items()}
  assert table_rows.evaluate(row, [turn]).result == 1.5
  assert table_rows.evaluate(row, [{"here": {}}]) is None
  assert table_rows.evaluate(time_row(), turns(here=[1])) is None


def test_lines_of_the_table():
  row = table_rows.Row("training", "share", 0.88, at_most=False, result="own")
  ours, peer = {"share": 0.724}, {"share": 0.31}
  run = {
    "machine": "a processor", "date": "2026-01-02", "command": "table.py",
    "code": "1a2b of 2026-01-01",
    "turns": [{"here": ours, "peer": peer}],
  }
  jobs = {**run, "turns": turns(here=[1.25], Trainer=[240.0])}
  notes = {name: table_rows.run_note(run, False) for name in ("step", "job")}
  outcomes = {
    "step": [table_rows.evaluate(row, run["turns"])],
    "job": [table_rows.evaluate(time_row(), jobs["turns"])],
  }
  assert table_rows.markdown(outcomes, notes).split("\n") == [
    "| work | here | peers | result | target | met | run |",
    "|---|---|---|---|---|---|---|",
    "| training | 72.4 % | peer: 31.0 % | 72.4 % | ≥ 88.0 % | **no** | 1 |",
    "| job | 1.25 s | Trainer: 240 s | 0.01 × | ≤ 0.50 × | yes | 1 |",
    "",
    "1. a processor; 2026-01-02; code 1a2b of 2026-01-01; median of 1 turn; "
    "`table.py`",
  ]
  assert "code 1a2b of 2026-01-01, which has changed since; median" in (
    table_rows.run_note(run, True)
  )


def test_the_table_replaces_the_one_between_the_markers():
  page = "# Speed\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\nx"
  new = table_rows.replace_table(page, "new")
  assert new == page.replace("old", "new")
  for wrong in ("# Speed", page + page, page.replace("end", "begin")):
    with pytest.raises(errors.InputError, match="expected one line"):
      table_rows.replace_table(wrong, "new")


@pytest.mark.parametrize(
  "page, name",
  [("docs/performance.md", "make bench"), ("docs/performance.md", "gpu speed"),
   ("docs/performance.md", "xla program"),
   *(("docs/engines.md", f"engines, {name}")
     for name in (*engine_works.MODELS.values(), "scores")),
   ("benchmarks/RESULTS.md", "make bench")],
)
def test_the_pages_of_the_project_have_the_markers(tmp_path, page, name):
  copy = tmp_path / "page.md"
  shutil.copy(ROOT / page, copy)
  table_rows.write_into(copy, name, "new table")
  assert "\nnew table\n" in copy.read_text()


def test_headlines_say_how_much_faster_than_the_fastest_peer(tmp_path):
  times = turns(here=[2], slow=[9], fast=[5])
  speeds = [{
    name: {"examples_per_second": speed}
    for name, speed in (("here", 3), ("slow", 1), ("fast", 2))
  }]
  found = [
    table_rows.headline("Jobs", "one", times, "wall", ""),
    table_rows.headline("Jobs", "slow", times, "wall", "slow"),
    table_rows.headline("Jobs", "lost", turns(here=[5], a=[2]), "wall", ""),
    table_rows.headline("Steps", "two", speeds, "examples_per_second", ""),
  ]
  assert table_rows.headline("Jobs", "x", times, "wall", "none") is None
  assert table_rows.headline_table(found).split("\n")[2:] == [
    "| Jobs: one | 2.00 s | fast: 5.00 s | **2.5× faster** |",
    "| Jobs: slow | 2.00 s | slow: 9.00 s | **4.5× faster** |",
    "| Jobs: lost | 5.00 s | a: 2.00 s | 2.5× slower |",
    "| Steps: two | 3.00 examples/s | fast: 2.00 examples/s | "
    "**1.5× faster** |",
  ]
  pytest.importorskip("matplotlib")
  table_rows.draw(found, tmp_path / "chart.png")
  assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_headlines_are_of_measured_works():
  works = {work.name: work for work in table_work.all_works()}
  for _, _, name, measure, peers in table_plan.HEADLINES:
    rows = works[name].rows
    assert any(r.measure == measure and peers in r.peers for r in rows)


def test_the_short_form_has_all_headlines_and_takes_less_than_an_hour():
  names = {work.name for work in table_work.all_works()}
  headlines = {work for _, _, work, _, _ in table_plan.HEADLINES}
  assert headlines <= set(table_plan.SHORT) <= names
  assert sum(minutes for minutes, _ in table_plan.SHORT.values()) <= 60


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
    "cores": None, "print_only": True, "page": page, "short": False,
    "results_file": tmp_path / "results.json", **values,
  })
  scope = TABLE["main"].__globals__
  monkeypatch.setitem(scope, "parse_arguments", lambda: arguments)
  monkeypatch.setitem(scope, "compile_modules", lambda: None)
  monkeypatch.setattr(table_work, "all_works", lambda: works)
  TABLE["main"]()
  return json_files.read(str(arguments.results_file))


def test_a_work_that_fails_leaves_the_others(tmp_path, monkeypatch, capsys):
  works = made_up_work("a", [1]), made_up_work("b", [2, 2])
  with pytest.raises(errors.InputError, match="^a failed, as said above"):
    run_table(tmp_path, monkeypatch, works)
  runs = json_files.read(str(tmp_path / "results.json"))
  assert {name: len(run["turns"]) for name, run in runs.items()} == {
    "a": 1, "b": 2
  }
  table, said = capsys.readouterr()
  assert "a failed: " in said and "| b | 2.00 s" in table


def test_a_short_run_says_its_steps(tmp_path, monkeypatch):
  monkeypatch.setitem(table_plan.SHORT, "a", (1, {"repeats": 1, "steps": 20}))
  monkeypatch.setattr("sys.argv", ["table.py", "--short"])
  work = made_up_work("a", [1])
  run = run_table(tmp_path, monkeypatch, (work,), short=True)["a"]
  assert len(run["turns"]) == 1
  assert run["command"] == "benchmarks/table.py --short --repeats=1 --steps=20"


def made_up_work(name, seconds, **options):
  measured = iter(seconds)

  def turn(arguments, folder):
    assert folder.is_dir()
    return {"here": {"wall": next(measured)}, "peer": {"wall": 4}}

  return table_work.Work(name, (), turn, (time_row(title=name),), **options)


def test_a_later_call_replaces_its_own_rows_only(tmp_path, monkeypatch, capsys):
  first = made_up_work("a", [1, 1, 3, 3]), made_up_work("b", [2, 2])
  run_table(tmp_path, monkeypatch, first)
  runs = run_table(tmp_path, monkeypatch, first, rows="a")
  walls = {
    name: [turn["here"]["wall"] for turn in run["turns"]]
    for name, run in runs.items()
  }
  assert walls == {"a": [3, 3], "b": [2, 2]}
  table, said = capsys.readouterr()
  # The minutes of the last time; of the first nothing is known.
  assert "2 works, about 0 minutes, and those of a, b" in said
  assert "| a | 3.00 s | peer: 4.00 s | 0.75 × | ≤ 0.50 × | **no** |" in table
  assert "| b | 2.00 s | peer: 4.00 s | 0.50 × | ≤ 0.50 × | yes |" in table


def test_works_of_other_dtypes_and_without_data_are_left_out(
  tmp_path, monkeypatch, capsys
):
  works = (
    made_up_work("kept", [1, 1]), made_up_work("other", [], dtype="bfloat16"),
    table_work.Work("data", ("text",), None, ()),
  )
  runs = run_table(tmp_path, monkeypatch, works, text=None)
  assert list(runs) == ["kept"]
  assert "data is left out: it needs --text" in capsys.readouterr().err
  with pytest.raises(errors.InputError, match="no such work"):
    run_table(tmp_path, monkeypatch, works, rows="nothing")


def test_code_is_older_than_what_has_changed_since(monkeypatch):
  is_older = TABLE["is_older"]
  changed = {"1a": "", "2b": "modeling.py", "unknown": None}
  monkeypatch.setitem(
    TABLE["main"].__globals__, "_git", lambda *command: changed[command[2]]
  )
  found = [is_older(f"{code} of 2026-01-01", "job") for code in changed]
  assert found == [False, True, True]


def test_names_in_columns():
  words = ["In", "New", "York", ",", "he", "met", "Ada", "."]
  assert [line.split()[1] for line in
          table_work._columns(words).splitlines()] == [
    "O", "B-NAME", "I-NAME", "O", "O", "O", "B-NAME", "O"
  ]
  assert table_work._columns(["He", "ran"]) == "he O\nran O\n"


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
