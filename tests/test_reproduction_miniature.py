"""The miniature: its catalogue, its data, its order of jobs, and its page."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

import pytest

import script_runner
import test_reproduction_rows
from common import errors, json_files
from reproduction import miniature, miniature_data, miniature_page, runs

CLAIMS, PRETRAININGS = (
  miniature.CATALOG[name] for name in ("claims", "pretrainings")
)


def test_all_that_the_catalogue_names_is_in_it():
  for entry in PRETRAININGS.values():
    assert entry["records"] in miniature.CATALOG["records"]
    assert entry.get("from", "words") in PRETRAININGS
  for claim in CLAIMS.values():
    labels = [contender["label"] for contender in claim["contenders"]]
    assert len(set(labels)) == len(labels)
    assert {name for pair in claim["expected"] for name in pair} <= {*labels}
    tasks = {t for c in claim["contenders"] for t in c.get("paper", {})}
    assert tasks <= {*miniature.CATALOG["tasks"]}
  for name, budget in miniature.CATALOG["budgets"].items():
    assert {*budget["claims"]} <= {*CLAIMS}
    assert list(miniature.Miniature(name, "out").jobs())
    for features in {c.get("features", "") for c in CLAIMS["features"]
                     ["contenders"]}:
      assert "four" not in features or budget["networks"]["main"]["layers"] > 3
  for name in ("hours", "gpu"):
    budget = miniature.CATALOG["budgets"][name]
    assert {*budget["claims"]} == {*CLAIMS} and budget["seeds"] >= 3


def test_a_smoke_run_passes_every_flag():
  def flags_of(budget):
    return {
      (job.plan.row.script, word.partition("=")[0])
      for job in miniature.Miniature(budget, "out").jobs()
      for word in job.command() if word.startswith("--")
    }

  assert flags_of("hours") <= flags_of("minutes") == flags_of("gpu")


def write_data(folder):
  """Writes text, SQuAD and tables, as small as jobs can be made of."""
  (folder / "glue" / "STS-B").mkdir(parents=True)
  for name in ("RTE", "MRPC", "SST-2"):
    (folder / "glue" / name).mkdir()
    for part in ("train", "dev"):
      rows = "".join(f"{part} {n}\t{n % 2}\n" for n in range(24))
      (folder / "glue" / name / f"{part}.tsv").write_text(
        "sentence\tlabel\n" + rows
      )
  names = "index genre filename year old_index source1 source2 sentence1"
  header = [*names.split(), "sentence2", "score"]
  for part in ("train", "dev"):
    with open(folder / "glue" / "STS-B" / f"{part}.tsv", "w") as stream:
      table = csv.writer(stream, delimiter="\t", lineterminator="\n")
      table.writerow(header)
      for n in range(24):
        texts = [f"a {part} sees {n} dogs", f"{n} dogs are seen by a {part}"]
        table.writerow([n, *["-"] * 6, *texts, (n % 6) * 0.8])
  (folder / "squad").mkdir()
  for file, count in (("train-v1.1.json", 40), ("dev-v1.1.json", 12)):
    paragraphs = [{
      "context": f"The {file[:3]} river Tamar runs {n} miles. Then Ann came.",
      "qas": [{
        "id": f"{file[:3]}{n}", "question": "How long is it?",
        "answers": [{"text": f"{n} miles", "answer_start": 25}],
      }],
    } for n in range(count)]
    text = json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]})
    (folder / "squad" / file).write_text(text)
  story = "The dog ran home.\nIt was a long way.\nNobody saw the dog.\n\n"
  (folder / "text.txt").write_text(story * 60)


@pytest.fixture
def mini(tmp_path):
  write_data(tmp_path)
  made = miniature.Miniature("minutes", str(tmp_path / "out"))
  made.prepare([str(tmp_path / "text.txt")], str(tmp_path))
  return made


def read(mini, *parts):
  return open(os.path.join(mini.output, *parts), encoding="utf-8").read()


def test_rates_are_chosen_on_rows_that_no_number_is_from(mini):
  train, chosen, dev = (
    read(mini, *parts).splitlines()[1:] for parts in (
      ("tune", "RTE", "train.tsv"), ("tune", "RTE", "dev.tsv"),
      ("final", "RTE", "dev.tsv"),
    )
  )
  assert chosen == ["train 0\t0", "train 8\t0", "train 16\t0"]
  assert len(train) == 12 and not {*train, *chosen} & {*dev}
  assert [*dev] == [f"dev {n}\t{n % 2}" for n in range(24)]
  for kind in ("train", "dev"):
    squad = json.loads(read(mini, "tune", "squad", f"{kind}.json"))["data"]
    ids = {q["id"] for p in squad[0]["paragraphs"] for q in p["qas"]}
    assert len(ids) == {"train": 20, "dev": 5}[kind]
    assert all(name.startswith("tra") for name in ids)
  final = json.loads(read(mini, "final", "squad", "dev.json"))["data"][0]
  # Of 12, every second: at most 10.
  assert [p["qas"][0]["id"] for p in final["paragraphs"]] == [
    f"dev{n}" for n in range(0, 12, 2)
  ]


def test_texts_without_labels_are_those_behind_the_labelled_ones(mini):
  for labelled, first in ((5, 5), (10000, 12)):
    miniature_data.write_unlabelled(mini.output, labelled)
    texts = read(mini, "final", "SST-2", "unlabelled.tsv").splitlines()
    assert texts == ["text", *(f"train {n}" for n in range(first, 24))]
  tune = read(mini, "tune", "SST-2", "unlabelled.tsv").splitlines()
  assert tune == ["text", *(f"train {n}" for n in range(13, 24, 2))]


def test_claims_with_targets_have_their_seeds_first():
  names = [job.name for job in miniature.Miniature("hours", "out").jobs()]
  first = names.index("mrpc-64.narrower, seed 1")
  for name in ("squad.main", "sst-2-10k.bert.student", "squad-128.no-nsp-128"):
    assert names.index(f"{name}, seed 3") < first
  last_claim = names.index("sts-b-64.electra, seed 1")
  seconds = [n for n, name in enumerate(names) if name.endswith("seed 2")]
  assert last_claim < names.index("mrpc-64.narrower, seed 2")
  assert seconds[-1] < names.index("mrpc-64.narrower, seed 3")


def test_a_teacher_is_there_before_its_students_learn():
  jobs = list(miniature.Miniature("gpu", "out").jobs())
  names = [job.name for job in jobs]
  teacher = "sst-2-10k.main, seed 1"
  students = [name for name in names if "bert.student" in name]
  assert len(students) == 2 + 5  # Rates, seeds.
  assert names.index(teacher) < min(map(names.index, students))
  path = "out/sst-2-10k.main/seed_1/final_model"
  for name in students:
    command = jobs[names.index(name)].command()
    assert f"--teacher_checkpoint={path}" in command


def test_text_is_of_no_dev_file_and_held_out_whole_documents(mini):
  train, held = (read(mini, "text", f"{n}.txt") for n in ("train", "held"))
  assert "The tra river Tamar runs 7 miles.\nThen Ann came.\n" in train
  assert "dev" not in train + held
  assert [part.count("\n\n") + 1 for part in (train, held)] == [95, 5]
  assert held.startswith("The dog ran home.\n")


def test_questions_come_before_their_paragraph_without_answers():
  paragraph = {"context": "It is  old. Ann\ncame.", "qas": [
    {"question": "Who came?", "answers": [{"text": "Ann"}]},
    {"question": " Is it\nold?", "answers": []},
  ]}
  assert list(miniature_data.question_texts([paragraph])) == [
    "Who came?\nIt is old.\nAnn came.\n\nIs it old?\nIt is old.\nAnn came.\n"
  ]


def test_a_folder_of_other_data_is_refused(mini, tmp_path):
  mini.prepare([str(tmp_path / "text.txt")], str(tmp_path))
  with pytest.raises(errors.InputError, match="choose another --output_dir"):
    mini.prepare(["other.txt"], str(tmp_path))


def test_missing_data_are_named_with_what_brings_them(tmp_path):
  write_data(tmp_path)
  (tmp_path / "glue" / "MRPC" / "dev.tsv").unlink()
  with pytest.raises(errors.InputError, match="MRPC with train.tsv, dev.tsv; "):
    miniature.Miniature("minutes", str(tmp_path / "out")).prepare(
      [str(tmp_path / "text.txt")], str(tmp_path)
    )


def test_names_are_words_with_a_capital_but_for_the_first():
  assert miniature_data.tagged("Then Mary Ann came, and U.S. law.") == (
    "then O\nmary B-NAME\nann I-NAME\ncame O\n, O\nand O\nu.s B-NAME\n. O\n"
    "law O\n. O"
  )


def finish(job, **results):
  folder = job.plan.folder(job.seed)
  os.makedirs(folder)
  json_files.write(os.path.join(folder, "result.json"), {
    "command": job.command(), "results": results, "seconds": 10.0,
    "machine": "an abacus", "date": "2026-01-02",
  })


def test_records_are_made_when_all_their_shards_are(tmp_path):
  jobs = miniature.Miniature("minutes", str(tmp_path)).jobs()
  job = next(job for job in jobs if job.name == "records.pairs-64")
  assert not job.is_done()
  names = [f"pairs-64.tfrecord-0000{n}-of-00003" for n in range(3)]
  for count in range(4):
    shards = {name: {} for name in names[:count]}
    json_files.write(f"{job.made}.manifest.json", {"shards": shards})
    assert job.is_done() == (count == 3)


def test_the_rate_of_the_best_score_is_taken(tmp_path):
  mini = miniature.Miniature("minutes", str(tmp_path))
  tuning = [j for j in mini.jobs() if j.name.startswith("tune.sts-b.main.")]

  def chosen():
    [job] = [job for job in mini.jobs() if job.name == "sts-b.main, seed 1"]
    [flag] = [w for w in job.command() if w.startswith("--learning_rate=")]
    return flag.partition("=")[2]

  assert all(job.plan.data.endswith("tune") for job in tuning)
  assert chosen() == "RATE"
  for job, score in zip(tuning, (0.2, 0.3)):
    finish(job, eval_spearman=score, loss=-score)
  assert chosen() == "1e-3"


def test_each_job_comes_after_what_it_needs_and_once():
  for budget in miniature.BUDGETS:
    made = set()
    for job in miniature.Miniature(budget, "out").jobs():
      read = ("--init_ch", "--vocab_f", "--input", "--eval_in", "--teacher_ch")
      needed = [
        word.partition("=")[2] for word in job.command()
        if word.startswith(read)
      ]
      for path in needed:
        folder = "/".join(path.split("/")[:3])
        assert folder in made or path.startswith("out/text/"), path
      output = job.made if not job.seed else job.plan.folder(job.seed)
      assert output not in made
      made.add(output)


def test_finished_jobs_are_not_run_again_and_scale_the_estimates(
  tmp_path, monkeypatch, capsys
):
  mini, commands = miniature.Miniature("minutes", str(tmp_path)), []

  def run_script(command, **_):
    commands.append(command)
    if len(commands) == 8:
      return subprocess.CompletedProcess(command, returncode=1)
    made = [w for w in command if w.startswith("--output")][0].split("=")[1]
    os.makedirs(os.path.dirname(made), exist_ok=True)
    if "create" in command[1]:
      open(made, "w").close()
    else:
      os.makedirs(made, exist_ok=True)
      open(os.path.join(made, "model.ckpt-8.index"), "w").close()
      with open(os.path.join(made, "eval_results.txt"), "w") as stream:
        stream.write("global_step = 8\neval_spearman = 0.5\nf1 = 50.0\n")
        stream.write("eval_accuracy = 0.5\n")
    return subprocess.CompletedProcess(command, returncode=0)

  monkeypatch.setattr(miniature.subprocess, "run", run_script)
  monkeypatch.setattr(runs, "machine", lambda: "an abacus")
  told = []
  with pytest.raises(errors.InputError, match="ended with code 1; run the sa"):
    miniature.run(mini, lambda: told.append(1))
  miniature.run(mini, lambda: told.append(1))
  plan = list(mini.jobs())
  # The one that failed ran twice, all others once.
  assert len(commands) == len(plan) + 1 == len(told) + 1
  assert commands[7] == commands[8]
  assert all(job.is_done() for job in plan)
  left = [path.parent.parent.name for path in tmp_path.glob("*/*/model.ckpt*")]
  assert left and all(name.startswith("pretraining.") for name in left)
  out = capsys.readouterr().out
  assert f"[8/{len(plan)}] pretraining.main, seed 1: about 00:0" in out
  # They took no time here, so the rest will take none.
  assert f"[{len(plan)}/{len(plan)}] " in out and "then 00:00 are left" in out
  assert all(word in out for word in commands[-1])


def test_two_jobs_run_at_a_time_each_after_what_it_reads(tmp_path, monkeypatch):
  mini, meeting = miniature.Miniature("minutes", str(tmp_path)), []
  both, cores = threading.Barrier(2, timeout=60), set()
  monkeypatch.setattr(miniature.os, "sched_getaffinity", lambda _: {3, 5})
  monkeypatch.setattr(
    miniature.os, "sched_setaffinity", lambda _, chosen: cores.add((*chosen,))
  )

  def run_job(job):
    assert not job.waits_for([
      other.product() for other in mini.jobs() if not other.is_done()
    ])
    if job.name in ("records.pairs-16", "records.held-out-16"):
      both.wait()  # For each other.
      meeting.append(job.name)
    assert not job.is_done()
    if job.seed:
      finish(job, f1=1, eval_spearman=0.5, eval_accuracy=0.5, global_step=8)
    else:
      os.makedirs(job.made)

  monkeypatch.setattr(miniature.Job, "run", run_job)
  told = []
  miniature.run(mini, lambda: told.append(1), 2)
  plan = list(mini.jobs())
  assert len(meeting) == 2 and cores == {(3,), (5,)}
  assert len(told) == len(plan) and all(job.is_done() for job in plan)
  with pytest.raises(errors.InputError, match="=3 is more than the 2 cores h"):
    miniature.run(mini, lambda: None, 3)


@pytest.mark.parametrize("better, worse, found, difference, sd", [
  ([3.0, 1.0, 2.0], [1.0, 1.1, 1.2], miniature_page.WITHIN, 0.9, 1.00499),
  ([3.0, 3.1, 3.2], [1.0, 1.1, 1.2], miniature_page.SEEN, 2.0, 0.141421),
  ([1.0, 1.1, 1.2], [3.0, 3.1, 3.2], miniature_page.REVERSED, -2.0, 0.141421),
  ([3.0], [1.0], miniature_page.SEEN, 2.0, 0.0),
  ([1.0], [1.0], miniature_page.WITHIN, 0.0, 0.0),
])
def test_a_difference_counts_from_two_deviations_on(
  better, worse, found, difference, sd
):
  assert miniature_page.verdict(better, worse) == {
    "difference": pytest.approx(difference), "sd": pytest.approx(sd, 1e-4),
    "verdict": found,
  }


def finish_sizes(folder):
  """Finishes what claim "size" needs but for one fine-tuning."""
  mini = miniature.Miniature("hours", str(folder))
  for job in mini.jobs():
    kind, _, rest = job.name.partition(".")
    name = rest.partition(",")[0]
    if job.seed and name in ("narrower", "no-nsp", "deeper"):
      value = {"narrower": 0.6, "no-nsp": 0.7, "deeper": 0.5}[name]
      if job.name != "mrpc-64.deeper, seed 3":
        finish(
          job, masked_lm_loss=4 - value, eval_accuracy=value, f1=1,
          eval_spearman=value, global_step=8000,
        )
      if kind == "pretraining":
        path = os.path.join(job.plan.folder(1), "train_log.jsonl")
        with open(path, "w") as stream:
          for n in range(200):
            line = {"step": n, "masked_lm_loss": 9 - n / 100}
            stream.write(json.dumps(line) + "\n")
          stream.write('{"step": 200}\n')
  return mini


def test_the_page_has_the_paper_s_numbers_and_ours(tmp_path):
  mini = finish_sizes(tmp_path)
  page = tmp_path / "docs" / "own.md"
  page.parent.mkdir()
  page.write_text(
    f"before\n{miniature_page.BEGIN}\nold\n{miniature_page.END}\nafter\n"
  )
  written = miniature_page.write(mini, str(page))
  text = page.read_text()
  assert text.startswith(f"before\n{miniature_page.BEGIN}\nBudget `hours` (")
  assert text.endswith(f"{miniature_page.END}\nafter\n") and "old" not in text
  assert "| narrower | 5.84 | 30.0 | 1 |" in text  # exp(3.4)
  assert "| small < narrower | +2.9 (sd 0.0) | seen |" in text
  assert "| deeper < small | -6.0 (sd 0.0) | not seen: reversed |" in text
  assert "| deeper | 86.7 | 50.0 ± 0.0 | 2 |" in text
  assert "| pre-trained > random weights | - | not run |" in text
  assert "\n![Size helps](miniature_size.svg)" in text
  assert "an abacus; 2026-01-02" in text
  results = json.loads((page.parent / "miniature_results.json").read_text())
  curve = results["curves"]["pretraining.no-nsp"]["points"]
  assert curve[0] == [3, 8.97] and curve[-1] == [199, 7.01]
  assert len(curve) == 50
  assert "| no-nsp | 8,000 | 8.77 | 8.49 | 8.01 | 7.49 | 7.01 | 3.30 |" in text
  plots = [path for path in written if path.endswith(".svg")]
  assert len(plots) == len(CLAIMS)
  tree = ElementTree.parse(page.parent / "miniature_size.svg")
  circles = tree.findall("{http://www.w3.org/2000/svg}circle")
  # Three perplexities, and three, three and two accuracies.
  assert len(circles) == 11
  assert {float(c.get("cx")) for c in circles[3:]} == {240.0, 420.0, 600.0}


def test_the_notebook_draws_the_results(tmp_path, monkeypatch, capsys):
  pyplot = pytest.importorskip("matplotlib.pyplot")
  pyplot.switch_backend("Agg")
  mini = finish_sizes(tmp_path)
  _, values, *_ = miniature_page.write(mini, None)
  monkeypatch.setenv("MINIATURE_RESULTS", values)
  path = script_runner.ROOT / "docs" / "miniature.ipynb"
  cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
  code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
  exec("\n".join(code), {})
  assert "two CPU cores" in capsys.readouterr().out
  # The curves, and a figure for each claim with a panel for each task.
  figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
  assert [len(figure.axes) for figure in figures] == [1, *(
    len(tasks) for tasks in mini.budget["claims"].values()
  )]
  pyplot.close("all")


def test_a_smoke_run_sees_nothing(tmp_path):
  results = miniature_page.collect(
    miniature.Miniature("minutes", str(tmp_path))
  )
  verdicts = {
    line["verdict"] for claim in results["claims"]
    for table in claim["tables"] for line in table["directions"]
  }
  assert verdicts == {miniature_page.SMOKE}


def test_a_page_without_markers_is_refused_before_the_first_job(tmp_path):
  (tmp_path / "page.md").write_text("nothing")
  done = script_runner.run(
    "reproduce.py", miniature=True, text="t", data_dir="d",
    page=tmp_path / "page.md",
  )
  assert done.code == 1
  assert f"page.md lacks {miniature_page.BEGIN} and" in done.last_line
  done = script_runner.run("reproduce.py", miniature=True, data_dir="d")
  assert done.last_line.endswith("--miniature needs --text")


@pytest.mark.parametrize("budget", miniature.BUDGETS)
def test_a_dry_run_prints_the_plan_with_its_cost(tmp_path, budget):
  done = script_runner.succeed(
    "reproduce.py", miniature=True, budget=budget, text="t", data_dir="d",
    output_dir=tmp_path / "out", dry_run=True,
  )
  lines = done.out.splitlines()
  assert "vocabulary" in lines[0] and "create_vocabulary.py --in" in lines[1]
  assert len(lines) == 2 * int(lines[-1].split()[0]) + 1
  assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("script", [
  "create_vocabulary.py", "create_pretraining_data.py", "run_pretraining.py",
  "run_classifier.py", "run_squad.py", "run_ner.py",
])
def test_each_script_takes_its_flags(script, tmp_path):
  commands = {
    f"{budget}: {job.name}": [
      # RATE is no number before it is chosen.
      word.replace("=RATE", "=1") for word in job.command()[1:]
    ]
    for budget in miniature.BUDGETS
    for job in miniature.Miniature(budget, str(tmp_path)).jobs()
    if job.plan.row.script == script
  }
  assert commands
  context = multiprocessing.get_context("spawn")
  results = context.Queue()
  process = context.Process(
    target=test_reproduction_rows._parse, args=(script, commands, results)
  )
  process.start()
  assert not list(iter(results.get, None))
  process.join()


def start(folder):
  """Starts the smoke run; what it prints is in the file `printed`."""
  # Not in a pipe: the plan with long paths fills one that nobody reads yet.
  with open(folder / "printed", "w") as stream:
    return subprocess.Popen(
      [sys.executable, str(script_runner.ROOT / "reproduce.py"), "--miniature",
       "--budget=minutes", f"--text={folder / 'text.txt'}",
       f"--data_dir={folder}", f"--output_dir={folder / 'out'}",
       "--num_processes=2"],
      stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
    )


@pytest.mark.slow
def test_minutes_is_killed_and_goes_on_to_its_page(tmp_path):
  write_data(tmp_path)
  process = start(tmp_path)
  folder = tmp_path / "out" / "pretraining.main" / "seed_1"
  log, printed = folder / "run_fingerprint.json", tmp_path / "printed"
  deadline = time.monotonic() + 900
  while not log.exists() and time.monotonic() < deadline:
    assert process.poll() is None, printed.read_text()
    time.sleep(0.1)
  os.killpg(process.pid, signal.SIGKILL)
  assert process.wait() == -signal.SIGKILL
  assert log.exists(), printed.read_text()
  before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result*")}
  assert before
  process = start(tmp_path)
  assert process.wait(timeout=1800) == 0, printed.read_text()
  assert "written: " in printed.read_text()
  assert before == {path: path.stat().st_mtime_ns for path in before}
  results = json.loads((tmp_path / "out/miniature_results.json").read_text())
  assert results["jobs"] == results["finished"] and results["hours"] > 0
  for claim in results["claims"]:
    for table in claim["tables"]:
      assert {len(v) for v in table["scores"].values()} == {1}
  assert {*results["curves"]} == {
    job.plan.row.name for job in miniature.Miniature("minutes", "out").jobs()
    if job.name.startswith("pretraining.")
  }
  assert all(len(curve["points"]) for curve in results["curves"].values())
