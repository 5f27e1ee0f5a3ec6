"""The table of benchmarks/table.py: from numbers to lines of the page."""

import json
import runpy
import shutil
import sys

import pytest

import measured_runs
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
    "title": "job", "measure": "wall", "target": 0.5, **options
  })


@pytest.mark.parametrize(
  "options, contenders, result, best",
  [
    # Medians, and of the peers the best one.
    ({}, dict(here=[1, 9, 2], slow=[50, 50, 50], fast=[5, 4, 3]), 0.5, "fast"),
    ({"peers": "padded"}, dict(here=[3], dynamic=[4], padded=[5]), 0.6,
     "padded"),
    ({"result": "speedup"}, dict(here=[2], theirs=[28]), 14, "theirs"),
    # The best of our several rows counts, too.
    ({"ours": "int8"}, {"int8, a": [4], "int8, b": [2], "c": [8]}, 0.25, "c"),
    ({"ours": "int8", "result": "difference", "peers": "f"},
     dict(int8=[2], f=[3], better=[1]), -1, "f"),
    ({"target": None, "result": "own"}, dict(here=[1]), 1, None),
  ],
)
def test_a_row_is_compared_with_its_peers(options, contenders, result, best):
  found = table_rows.evaluate(time_row(**options), turns(**contenders))
  assert (found.result, found.peer) == (result, best)


def test_of_speeds_the_largest_is_the_best():
  measures = {"here": 6, "slow": 2, "fast": 4}
  turn = {k: {"examples_per_second": v} for k, v in measures.items()}
  for result in ("ratio", "speedup"):
    row = time_row(measure="examples_per_second", result=result)
    assert table_rows.evaluate(row, [turn]).result == 1.5
  assert table_rows.evaluate(row, [{"here": {}}]) is None
  assert table_rows.evaluate(time_row(), turns(here=[1])) is None


def test_lines_of_the_table():
  row = table_rows.Row("training", "share", 0.88, "own")
  ours, peer = {"share": 0.724}, {"share": 0.31}
  run = {
    "machine": "a processor", "date": "2026-01-02", "command": "table.py",
    "code": "1a2b of 2026-01-01",
    "turns": [{"here": ours, "peer": peer}],
  }
  jobs = {**run, "turns": turns(here=[1.25], Trainer=[240.0])}
  notes = dict.fromkeys(("step", "job"), table_rows.run_note(run))
  outcomes = {
    "step": [table_rows.evaluate(row, run["turns"])],
    "job": [
      table_rows.evaluate(time_row(**options), jobs["turns"])
      for options in ({}, {"result": "speedup"}, {"target": None})
    ],
  }
  assert table_rows.markdown(outcomes, notes).split("\n") == [
    "| work | here | peers | result | target | met | run |",
    "|---|---|---|---|---|---|---|",
    "| training | 72.4 % | peer: 31.0 % | 72.4 % | ≥ 88.0 % | **no** | 1 |",
    "| job | 1.25 s | Trainer: 240 s | 0.01 × | ≤ 0.50 × | yes | 1 |",
    "| job | 1.25 s | Trainer: 240 s | 192.00 × | ≥ 0.50 × | yes | 1 |",
    "| job | 1.25 s | Trainer: 240 s | 0.01 × | – | – | 1 |",
    "",
    "1. a processor; 2026-01-02; code 1a2b of 2026-01-01; median of 1 turn; "
    "`table.py`",
  ]


def test_the_table_replaces_the_one_between_the_markers(tmp_path):
  page = tmp_path / "page.md"
  text = "# Speed\n<!-- make bench: begin -->\nold\n<!-- make bench: end -->\nx"
  page.write_text(text)
  table_rows.write_into(page, "make bench", "new")
  assert page.read_text() == text.replace("old", "new")
  for wrong in ("# Speed", text + text, text.replace("end", "begin")):
    page.write_text(wrong)
    with pytest.raises(errors.InputError, match="expected one line"):
      table_rows.write_into(page, "make bench", "new")


@pytest.mark.parametrize(
  "page, name",
  [("docs/performance.md", "make bench"),
   *(("docs/engines.md", f"engines, {name}")
     for name in (*table_work.MODELS.values(), "scores")),
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
    (group, table_rows.evaluate(
      time_row(title=title, measure=measure, result="speedup", peers=peers),
      measured,
    ))
    for group, title, measured, measure, peers in (
      ("Jobs", "one", times, "wall", ""),
      ("Jobs", "slow", times, "wall", "slow"),
      ("Jobs", "lost", turns(here=[5], a=[2]), "wall", ""),
      ("Steps", "two", speeds, "examples_per_second", ""),
    )
  ]
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


def test_the_short_form_is_of_works_and_takes_less_than_an_hour():
  works = {work.name for work in table_work.all_works()}
  assert set(table_work.SHORT) <= works
  runs = json_files.read(str(ROOT / "benchmarks" / "results.json"))
  assert sum(runs[name]["minutes"] for name in table_work.SHORT) <= 60
  found = [
    table_work.headline(name, runs[name]["turns"]) for name in table_work.SHORT
  ]
  groups = [headline[0] for headline in found if headline]
  assert set(groups) == {"Fine-tuning", "Pre-training", "Prediction"}
  assert found[-1] is None and len(groups) > 10


def test_every_work_has_its_own_name_and_rows():
  works = table_work.all_works()
  assert len({work.name for work in works}) == len(works)
  titles = [row.title for work in works for row in work.rows]
  assert len(set(titles)) == len(titles)
  assert {name for work in works for name in work.needs} <= set(table_work.DATA)


def run_table(tmp_path, monkeypatch, works, *flags):
  """Runs table.py with works that need no other program."""
  monkeypatch.setattr(table_work, "all_works", lambda: works)
  monkeypatch.setattr(measured_runs, "set_environment", lambda **values: None)
  results = tmp_path / "results.json"
  TABLE["main"]([
    "--print_only", f"--results_file={results}", "--repeats=2", *flags
  ])
  return json_files.read(str(results))


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
  monkeypatch.setitem(table_work.SHORT, "a", ("--steps=20", "A"))
  works = made_up_work("a", [1]), made_up_work("b", [])
  runs = run_table(tmp_path, monkeypatch, works, "--short")
  assert list(runs) == ["a"] and len(runs["a"]["turns"]) == 1
  assert runs["a"]["command"] == (
    "benchmarks/table.py --print_only --repeats=2 --short --repeats=1 "
    "--steps=20"
  )


def made_up_work(name, seconds):
  measured = iter(seconds)

  def turn(arguments, folder):
    assert folder.is_dir()
    return {"here": {"wall": next(measured)}, "peer": {"wall": 4}}

  return table_work.Work(name, (), turn, [time_row(title=name)])


def test_a_later_call_replaces_its_own_rows_only(tmp_path, monkeypatch, capsys):
  first = made_up_work("a", [1, 1, 3, 3]), made_up_work("b", [2, 2])
  run_table(tmp_path, monkeypatch, first)
  runs = run_table(tmp_path, monkeypatch, first, "--rows=a")
  walls = {
    name: [turn["here"]["wall"] for turn in run["turns"]]
    for name, run in runs.items()
  }
  assert walls == {"a": [3, 3], "b": [2, 2]}
  table, said = capsys.readouterr()
  assert "2 works; turns took 0 minutes before" in table
  assert "| a | 3.00 s | peer: 4.00 s | 0.75 × | ≤ 0.50 × | **no** |" in table
  assert "| b | 2.00 s | peer: 4.00 s | 0.50 × | ≤ 0.50 × | yes |" in table


def test_works_without_data_are_left_out(tmp_path, monkeypatch, capsys):
  works = (
    made_up_work("kept", [1, 1]), table_work.Work("data", ("text",), None, ()),
  )
  runs = run_table(tmp_path, monkeypatch, works)
  assert list(runs) == ["kept"]
  assert "data is left out: it needs --text" in capsys.readouterr().err
  with pytest.raises(errors.InputError, match="no such work"):
    run_table(tmp_path, monkeypatch, works, "--rows=nothing")


def test_names_in_columns(tmp_path):
  path = tmp_path / "dev.json"
  contexts = ["In New York, he met Ada. He ran on. Is.", "It is 5° there."]
  path.write_text(json.dumps({
    "data": [{"paragraphs": [{"context": text} for text in contexts]}]
  }))
  sentences = table_work.sentences_with_names(path).split("\n\n")
  assert [line.split()[1] for line in sentences[0].split("\n")] == [
    "O", "B-NAME", "I-NAME", "O", "O", "O", "B-NAME", "O"
  ]
  # Neither too short ones, nor strange letters.
  assert sentences[1:] == ["he O\nran O\non O\n. O", ""]


def test_shown_commands_name_no_folder_of_a_machine():
  shown = TABLE["shown_command"]([
    "--rows=job/*", "--glue=/data/glue", "--peer_python=/p/python"
  ])
  assert shown == "benchmarks/table.py --rows=job/* --glue=glue"


def test_the_cost_of_a_command():
  loop = "import time; s = time.process_time\nwhile s() < 0.2: pass"
  said, cost = measured_runs.run(
    [sys.executable, "-c", f"{loop}\nprint('done')"], watches_memory=True
  )
  assert said == "done\n" and cost.megabytes > 1
  # The clock of other processes counts hundredths of a second.
  assert cost.processor >= 0.18 and cost.wall >= 0.2
  with pytest.raises(errors.InputError, match="(?s)code 1: .*ValueError: bad"):
    measured_runs.run([sys.executable, "-c", "raise ValueError('bad')"])


def test_the_cost_until_something_happens(tmp_path):
  done = tmp_path / "done"
  program = f"open({str(done)!r}, 'w').close(); import time; time.sleep(60)"
  _, cost = measured_runs.run(
    [sys.executable, "-c", program], until=done.exists
  )
  assert cost.wall < 30
  with pytest.raises(errors.InputError, match="ended with code 0"):
    measured_runs.run([sys.executable, "-c", ""], until=lambda: False)
