"""Tests the runs of --seeds and --search, and their tables."""

import pytest
from absl import flags as absl_flags

from common import errors, extensions, flags, run_settings
from message_facts import says
from running import repetitions
from running.repetitions import restart_flags, search_flags, seed_flags


def test_median_mean_and_deviation():
  text = seed_flags.summary(
    {
      1: {"eval_f1": 0.5, "loss": 1.0},
      2: {"eval_f1": 0.9, "loss": 1.0},
      7: {"eval_f1": 0.7, "loss": 1.0},
    }
  )
  header, f1, loss = [line.split() for line in text.splitlines()]
  assert header == "median mean sd seed 1 seed 2 seed 7".split()
  assert f1[0] == "eval_f1"
  assert [float(value) for value in f1[1:]] == [0.7, 0.7, 0.2, 0.5, 0.9, 0.7]
  assert float(loss[3]) == 0
  # A single seed has no deviation.
  _, loss = seed_flags.summary({1: {"loss": 0.25}}).splitlines()
  table = seed_flags.summary({1: dict.fromkeys("dbeca", 1.0)})
  assert [line[0] for line in table.splitlines()] == list(" abcde")
  cells = [f"     {value}" for value in ("0.25000", "0.25000", "0.00000")]
  assert loss == "".join(["loss    ", *cells, cells[0]])


def test_seeds_are_different_whole_numbers():
  limits = [-(2**63), 2**63 - 1]
  assert seed_flags.parse_seeds(list(map(str, limits))) == limits
  for seeds, message in (
    (["1", "x"], "1,x: expected whole numbers"),
    (["1", "2", "1"], "is repeated"),
    ([str(2**63)], "at most 64 bits"),
    ([str(-(2**63) - 1)], "at most 64 bits"),
  ):
    with pytest.raises(errors.InputError, match=message):
      seed_flags.parse_seeds(seeds)


def parse(name, text):
  value = float(text)
  if value <= 0:
    raise ValueError(f"{text} is too small")
  return value


def test_a_grid_is_every_combination():
  assert search_flags.parse_search(None, parse) == {}
  grid = search_flags.parse_search(
    ["learning_rate=5e-5,3e-5", "seed=1,2"], parse
  )
  assert list(grid) == [
    "learning_rate=5e-05_seed=1.0",
    "learning_rate=5e-05_seed=2.0",
    "learning_rate=3e-05_seed=1.0",
    "learning_rate=3e-05_seed=2.0",
  ]
  assert list(grid.values())[1] == {"learning_rate": 5e-5, "seed": 2.0}


@pytest.mark.parametrize(
  "text, message",
  [
    ("", "--search is empty"),
    ("learning_rte=1", says("'learning_rte'", "cannot")),
    ("max_seq_length=64,128", says("'max_seq_length'", "cannot", "expected")),
    ("seed=1 seed=2", "seed is repeated"),
    ("seed=1,1", "a value of seed is"),
    ("seed=", "seed has an empty value"),
    ("seed=0", "seed: 0 is too small"),
    ("learning_rate=1", says("--learning_rate", "--search")),
  ],
)
def test_invalid_searches_are_refused(text, message):
  with pytest.raises(errors.InputError, match=message):
    search_flags.parse_search(text.split(), parse, {"learning_rate"})


def test_the_table_of_a_search_begins_with_the_best():
  text = search_flags.search_table(
    {n: {"seed": n} for n in (1, 2, 3)},
    {
      1: {"eval_f1": 0.5, "loss": 1.0},
      2: {"eval_f1": 0.75, "loss": 2.0, "more": 1.0},
      3: {"eval_f1": 0.75, "loss": 3.0},
    },
    "eval_f1",
  )
  assert text == "seed\teval_f1\tloss\n2\t0.75\t2\n3\t0.75\t3\n1\t0.5\t1\n"
  one = search_flags.search_table(
    {1: {"seed": 1}}, {1: dict.fromkeys("dbfeca", 1.0)}, "f"
  )
  assert one == "seed\tf\ta\tb\tc\td\te\n" + "\t".join("1" * 7) + "\n"


def test_a_grid_leaves_a_table_and_the_best_model(tmp_path, capsys, caplog):
  caplog.set_level("INFO", logger="absl")
  settings = run_settings.Settings(
    {"output_dir": str(tmp_path), "seed": 0, "search": ["seed=1,2,3"]},
    parse=lambda name, text: int(text),
  )

  def run(changed):
    folder = tmp_path / f"seed={changed.seed}" / "final_model"
    assert changed.output_dir == str(folder.parent)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights").write_text(str(changed.seed))
    return {"f1": 0.5 + (changed.seed == 2)}

  def run_grid(is_chief):
    repetitions.run(settings, run, "f1", is_chief=is_chief)

  run_grid(False)
  assert not (tmp_path / "search_results.tsv").exists()
  for _ in range(2):  # A finished search may be run again.
    run_grid(True)
    table = (tmp_path / "search_results.tsv").read_text()
    assert table == "seed\tf1\n2\t1.5\n1\t0.5\n3\t0.5\n"
    assert capsys.readouterr().out == table
    assert (tmp_path / "final_model" / "weights").read_text() == "2"
    best = f"a copy of {tmp_path}/seed=2/final_model, is in {tmp_path}/final_"
    assert best in caplog.messages[-1]
  (tmp_path / "search_results.tsv").unlink()
  with pytest.raises(errors.InputError, match="belongs to a run without --"):
    run_grid(True)


@pytest.mark.parametrize(
  "output_dir, search, is_refused",
  [
    ("gs://bucket/run", ["seed=1,2"], True),
    ("gs://bucket/run", None, False),
    ("run", ["seed=1,2"], False),
    (None, ["seed=1,2"], False),
  ],
)
def test_a_search_needs_a_local_folder(
  monkeypatch, output_dir, search, is_refused
):
  values = flags.FLAGS.__class__()
  monkeypatch.setattr(flags, "FLAGS", values)
  for name, value in (("output_dir", output_dir), ("seed", "0")):
    absl_flags.DEFINE_string(name, value, "", flag_values=values)
  absl_flags.DEFINE_list("search", None, "", flag_values=values)
  values(["x"])
  values["search"].value = search
  if is_refused:
    with pytest.raises(errors.InputError, match="=gs://bucket/run is remote"):
      search_flags._check()
  else:
    search_flags._check()


def test_a_searched_flag_that_is_given_is_refused(monkeypatch):
  values = flags.FLAGS.__class__()
  monkeypatch.setattr(flags, "FLAGS", values)
  for name in ("output_dir", "seed", "search"):
    absl_flags.DEFINE_string(name, None, "", flag_values=values)
  values(["x", "--seed=3"])
  values["search"].value = ["seed=1,2"]
  with pytest.raises(errors.InputError, match="--seed is given"):
    search_flags._check()


def test_seeds_leave_a_table_of_their_scores(tmp_path, capsys, caplog):
  caplog.set_level("INFO", logger="absl")
  settings = run_settings.Settings(
    {
      "output_dir": str(tmp_path),
      "seed": 0,
      "seeds": ["1", "2"],
      "do_eval": True,
    }
  )
  folders = []

  def run(changed):
    folders.append(changed.output_dir)
    return {"f1": changed.seed / 4}

  assert repetitions.are_several(settings)
  repetitions.run(settings, run, "f1", is_chief=True)
  assert folders == [f"{tmp_path}/seed_1", f"{tmp_path}/seed_2"]
  table = (tmp_path / "seeds_results.txt").read_text()
  assert capsys.readouterr().out == table
  values = "0.37500 0.37500 0.17678 0.25000 0.50000"
  assert table.split()[-6:] == ["f1", *values.split()]
  messages = "run 1 of 2: seed_1", "run 2 of 2: seed_2"
  assert caplog.messages == list(messages)
  # Only the chief writes, and only scores.
  (tmp_path / "seeds_results.txt").unlink()
  repetitions.run(settings, run, "f1", is_chief=False)
  unscored = settings.replace(do_eval=False)
  repetitions.run(unscored, lambda _: None, "f1", is_chief=True)
  assert not list(tmp_path.iterdir()) and not capsys.readouterr().out


def test_without_a_flag_one_model_is_made():
  settings = run_settings.Settings({"output_dir": "out", "search": None})
  made = []
  assert not repetitions.are_several(settings)
  repetitions.run(settings, made.append, "f1", is_chief=True)
  assert made == [settings]


@pytest.mark.parametrize(
  "files, script, expected",
  [
    (
      ["restart_flags", "search_flags", "seed_flags"],
      repetitions.Script("classification", "f1", "one"),
      {"max_restarts": "", "search": "seeds one", "seeds": "one"},
    ),
    # Without a file, its flag is gone, and no other flag names it.
    (
      ["restart_flags", "search_flags"],
      repetitions.Script("classification", "f1", "one"),
      {"max_restarts": "", "search": "one"},
    ),
    (
      ["restart_flags", "search_flags", "seed_flags"],
      repetitions.Script("squad", "f1"),
      {"max_restarts": "", "search": ""},
    ),
    (
      ["restart_flags", "search_flags", "seed_flags"],
      repetitions.Script("pretraining"),
      {"max_restarts": ""},
    ),
    ([], repetitions.Script("classification", "f1"), {}),
  ],
)
def test_each_script_has_the_flags_of_its_files(
  monkeypatch, files, script, expected
):
  defined = {}
  monkeypatch.setattr(extensions, "names", lambda _: files)
  for file in (restart_flags, search_flags, seed_flags):
    monkeypatch.setattr(
      file,
      "define",
      lambda _, not_with, flag=file.FLAG: defined.update({flag: not_with}),
    )
  repetitions.define(script)
  assert defined == expected
