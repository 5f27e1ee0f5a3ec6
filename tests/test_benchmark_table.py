"""benchmarks/table.py turns measurements into tables of the documentation."""

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
  return table_rows.Row(
    **{"title": "job", "measure": "wall", "target": 0.5, **options}
  )


@pytest.mark.parametrize(
  "options, contenders, result, best",
  [
    # Compares the median with that of the best peer.
    ({}, dict(here=[1, 9, 2], slow=[50, 50, 50], fast=[5, 4, 3]), 0.5, "fast"),
    (
      {"peers": "padded"},
      dict(here=[3], dynamic=[4], padded=[5]),
      0.6,
      "padded",
    ),
    ({"result": "speedup"}, dict(here=[2], peer=[28]), 14, "peer"),
    # Compares the best of several contenders of this project.
    ({"ours": "int8"}, {"int8, a": [4], "int8, b": [2], "c": [8]}, 0.25, "c"),
    (
      {"ours": "int8", "result": "difference", "peers": "f"},
      dict(int8=[2], f=[3], better=[1]),
      -1,
      "f",
    ),
    ({"target": None, "result": "own"}, dict(here=[1]), 1, None),
  ],
)
def test_a_row_is_compared_with_its_peers(options, contenders, result, best):
  outcome = table_rows.evaluate(time_row(**options), turns(**contenders))
  assert (outcome.result, outcome.peer) == (result, best)


def test_lines_of_the_table():
  row = table_rows.Row("step", "share", 0.88, "own")
  here, peer = {"share": 0.724}, {"share": 0.31}
  run = {
    "machine": "a processor",
    "date": "2026-01-02",
    "command": "table.py",
    "code": "1a2b of 2026-01-01",
    "turns": [{"here": here, "peer": peer}],
  }
  jobs = {**run, "turns": turns(here=[1.25], Trainer=[240.0])}
  old, new = run, {**run, "date": "2026-03-04"}
  outcomes = {
    ("step", "old"): (
      [table_rows.evaluate(row, run["turns"])],
      table_rows.run_note(old),
    ),
    ("job", "new"): (
      [
        table_rows.evaluate(time_row(**options), jobs["turns"])
        for options in ({}, {"result": "speedup"})
      ],
      table_rows.run_note(new),
    ),
    ("job", "old"): (
      [table_rows.evaluate(time_row(target=None), jobs["turns"])],
      table_rows.run_note(old),
    ),
  }
  assert table_rows.markdown(outcomes).split("\n") == [
    "| work | processor | here | peers | result | target | met | run |",
    "|---|---|---|---|---|---|---|---|",
    "| step | old | 72.4 % | peer: 31.0 % | 72.4 % | ≥ 88.0 % | **no** | 1 |",
    "| job | new | 1.25 s | Trainer: 240 s | 0.01 × | ≤ 0.50 × | yes | 2 |",
    "| job | new | 1.25 s | Trainer: 240 s | 192.00 × | ≥ 0.50 × | yes | 2 |",
    "| job | old | 1.25 s | Trainer: 240 s | 0.01 × | – | – | 1 |",
    "",
    "1. a processor; 2026-01-02; code 1a2b of 2026-01-01; median of 1 turn; "
    "`table.py`",
    "2. a processor; 2026-03-04; code 1a2b of 2026-01-01; median of 1 turn; "
    "`table.py`",
  ]


@pytest.mark.parametrize(
  "page, name",
  [
    ("docs/performance.md", "make bench"),
    *(
      ("docs/engines.md", f"engines, {name}")
      for name in (*table_work.MODELS.values(), "scores")
    ),
    ("benchmarks/RESULTS.md", "make bench"),
  ],
)
def test_the_pages_of_the_project_have_the_markers(tmp_path, page, name):
  copy = tmp_path / "page.md"
  shutil.copy(ROOT / page, copy)
  table_rows.write_into(copy, name, "new table")
  assert "\nnew table\n" in copy.read_text()
  with pytest.raises(errors.InputError, match="must have one line"):
    table_rows.write_into(copy, "other", "new table")


def test_headlines_say_how_much_faster_than_the_fastest_peer(tmp_path):
  slower_turns = [
    {
      name: {"examples_per_second": speed}
      for name, speed in (("here", 2), ("slow", 1), ("fast", 5))
    }
  ]
  outcomes = [
    table_rows.Headline(
      "Jobs",
      processor,
      table_rows.evaluate(time_row(**options, result="speedup"), turn),
    )
    for processor, options, turn in (
      ("new", {}, turns(here=[2], slow=[9], fast=[5])),
      ("old", {}, turns(here=[4], slow=[9], fast=[5])),
      ("old", {}, turns(here=[5], slow=[9], fast=[5.2])),
      ("old", {"measure": "examples_per_second", "title": "s"}, slower_turns),
    )
  ]
  assert table_rows.headline_table(outcomes).split("\n")[2:] == [
    "| Jobs: job | new | 2.00 s | fast: 5.00 s | **2.5× faster** |",
    "| Jobs: job | old | 4.00 s | fast: 5.00 s | **1.2× faster** |",
    "| Jobs: job | old | 5.00 s | fast: 5.20 s | equal within 5 % |",
    "| Jobs: s | old | 2.00 examples/s | fast: 5.00 examples/s | 2.5× slower |",
  ]
  pytest.importorskip("matplotlib")
  table_rows.draw(outcomes, tmp_path / "chart.png")
  assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_names_are_unique_and_the_short_form_takes_at_most_an_hour():
  works = table_work.all_works()
  names = {work.name for work in works}
  assert len(names) == len(works) and set(table_work.SHORT) <= names
  titles = [row.title for work in works for row in work.rows]
  assert len(set(titles)) == len(titles)
  assert {name for work in works for name in work.needs} <= set(table_work.DATA)
  results = json_files.read(str(ROOT / "benchmarks" / "results.json"))
  for processor, runs in results.items():
    measured = [name for name in table_work.SHORT if name in runs]
    assert sum(runs[name]["minutes"] for name in measured) <= 60
    headlines = [
      table_work.headline(name, processor, runs[name]["turns"])
      for name in measured
    ]
    groups = {headline.group for headline in headlines if headline}
    assert groups == {"Fine-tuning", "Pre-training", "Prediction"}
  assert table_work.headline("step/train8/float32", "", []) is None


def made_up_work(name, seconds):
  measured = iter(seconds)

  def contenders(arguments, folder):
    assert folder.is_dir()
    yield "here", next(measured)
    yield "peer", 4
    yield "failing peer", None

  def measure(wall):
    return wall and {"wall": wall}

  rows = [time_row(title=name)]
  return table_work.Work(name, rows, (), contenders, measure)


def test_a_call_replaces_the_results_of_works_that_succeed(
  tmp_path, monkeypatch, capsys
):
  works = [
    made_up_work("a", [1, 1, 3, 3]),
    made_up_work("b", [2, 2]),
    made_up_work("failing", [1]),
    table_work.Work("data", [], ("text",), None, None),
  ]
  monkeypatch.setattr(table_work, "all_works", lambda: works)
  monkeypatch.setattr(measured_runs, "set_environment", lambda **values: None)
  results = tmp_path / "results.json"
  flags = ["--print_only", f"--results_file={results}", "--repeats=2"]
  # The results of another processor stay as they are.
  kept = {
    "machine": "another, 2 cores",
    "date": "2026-01-02",
    "code": "1a2b",
    "command": "table.py",
    "minutes": 1,
    "turns": turns(here=[1], peer=[8]),
  }
  json_files.write(str(results), {"another": {"a": kept}})
  with pytest.raises(errors.InputError, match="^failing failed .see above"):
    TABLE["main"](flags)
  table, log = capsys.readouterr()
  assert "data is skipped: it needs --text" in log and "| 1.00 s" in table
  TABLE["main"]([*flags, "--rows=a"])
  stored = json_files.read(str(results))
  assert stored.pop("another") == {"a": kept}
  ((processor, runs),) = stored.items()
  assert processor == TABLE["processor_class"]()
  walls = {
    name: [turn["here"]["wall"] for turn in run["turns"]]
    for name, run in runs.items()
  }
  assert walls == {"a": [3, 3], "b": [2, 2], "failing": [1]}
  table, _ = capsys.readouterr()
  assert "works: 1; one turn took 0 min the last time" in table
  for row in (
    f"| a | {processor} | 3.00 s | peer: 4.00 s | 0.75 × | ≤ 0.50 × | **no** |",
    f"| b | {processor} | 2.00 s | peer: 4.00 s | 0.50 × | ≤ 0.50 × | yes |",
    "| a | another | 1.00 s | peer: 8.00 s | 0.12 × | ≤ 0.50 × | yes |",
  ):
    assert row in table
  with pytest.raises(errors.InputError, match="no such work"):
    TABLE["main"]([*flags, "--rows=nothing"])


def test_capitalized_words_become_tagged_names(tmp_path):
  path = tmp_path / "dev.json"
  contexts = ["In New York, he met Ada. He ran on. Is.", "It is 5° there."]
  path.write_text(
    json.dumps(
      {"data": [{"paragraphs": [{"context": text} for text in contexts]}]}
    )
  )
  sentences = table_work.sentences_with_names(path).split("\n\n")
  assert [line.split()[1] for line in sentences[0].split("\n")] == [
    "O",
    "B-NAME",
    "I-NAME",
    "O",
    "O",
    "O",
    "B-NAME",
    "O",
  ]
  # Sentences that are short or have unusual characters are left out.
  assert sentences[1:] == ["he O\nran O\non O\n. O", ""]


def test_shown_commands_name_no_folder_of_a_machine():
  shown = TABLE["shown_command"](
    ["--rows=job/*", "--glue=/data/glue", "--peer_python=/p/python"]
  )
  assert shown == "benchmarks/table.py --rows=job/* --glue=glue"


def test_time_and_memory_of_a_command_are_measured():
  loop = "import time; s = time.process_time\nwhile s() < 0.2: pass"
  output, cost = measured_runs.run(
    [sys.executable, "-c", f"{loop}\nprint('done')"], watches_memory=True
  )
  assert output == "done\n" and cost.megabytes > 1
  # The clock of a child process has a resolution of 0.01 s.
  assert cost.processor >= 0.18 and cost.wall >= 0.2
  with pytest.raises(errors.InputError, match="(?s)code 1: .*ValueError: bad"):
    measured_runs.run([sys.executable, "-c", "raise ValueError('bad')"])
  _, cost = measured_runs.run(
    [sys.executable, "-c", "import time; time.sleep(60)"], until=lambda: True
  )
  assert cost.wall < 30
