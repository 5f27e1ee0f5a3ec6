"""The paper in miniature: its claims as commands, on a small machine.

miniature.json has all that was chosen: records, pre-trainings, tasks, claims
with the published numbers, and for each budget the networks, steps and rates.
Here they become jobs, in the order in which they run: what a contender needs
first (records, pre-training, its learning rate), then its seeds. Contenders of
several claims share their runs.

  OUT/pretraining.bert/seed_1           one for all its fine-tunings
  OUT/tune.mrpc.bert.5e-4/seed_1        tries a rate on rows kept apart
  OUT/mrpc.bert/seed_2                  a score
"""

import math
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import NamedTuple

from common import errors, file_io, json_files, progress
from reproduction import miniature_data, rows, runs

CATALOG = json_files.read(str(pathlib.Path(__file__).with_suffix(".json")))
BUDGETS = tuple(CATALOG["budgets"])
_UNKNOWN_RATE = "RATE"  # Of commands printed before it is chosen.
_WARMUP = 0.05  # Of the steps of a pre-training.
_SHARD_MB = 10  # A random next segment is then of the same kind of text.
# Of a network for pre-training: text is read at most a few times.
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Job(NamedTuple):
  """A command that has to run once."""

  plan: runs.Plan  # Whose row is the job's name, script and flags.
  seed: int  # 0: a script without seeds, which makes `made`.
  seconds: float  # What it should take, from the budget's speeds.
  made: str = ""

  @property
  def name(self) -> str:
    """What it is called in the plan: mrpc.bert, seed 2."""
    seed = f", seed {self.seed}" if self.seed else ""
    return self.plan.row.name + seed

  def command(self) -> list[str]:
    """Returns the command, a list for subprocess."""
    if self.seed:
      return runs.command(self.plan, self.seed)
    script = str(pathlib.Path(__file__).parents[1] / self.plan.row.script)
    return [sys.executable, script, *self.plan.row.flags]

  def result(self) -> dict | None:
    """Returns its result.json, or None before it is done."""
    path = os.path.join(self.plan.folder(self.seed), "result.json")
    return json_files.read(path) if os.path.exists(path) else None

  def is_done(self) -> bool:
    """Whether it need not run."""
    if self.seed:
      return self.result() is not None
    manifest = f"{self.made}.manifest.json"
    if os.path.exists(manifest):  # Of shards: before they are finished, too.
      return file_io.are_all_shards(json_files.read(manifest)["shards"])
    return os.path.exists(self.made)

  def product(self) -> str:
    """Returns the file or folder that it makes."""
    return self.plan.folder(self.seed) if self.seed else self.made

  def waits_for(self, products: list[str]) -> bool:
    """Whether it reads one of what is not made yet, or a rate not chosen."""
    values = {flag.partition("=")[2] for flag in self.plan.row.flags}
    others = {*products} - {self.product()}
    return _UNKNOWN_RATE in values or any(
      value == path or value.startswith(path + os.sep)
      for value in values for path in others
    )

  def run(self) -> None:
    """Runs it, or goes on with it; raises InputError if it fails."""
    if self.seed:
      runs.run(self.plan, self.seed)
    elif subprocess.run(self.command(), check=False).returncode:
      raise errors.InputError(
        f"{self.plan.row.script} failed, see its message above; the command "
        f"was {shlex.join(self.command())}"
      )


class Miniature(NamedTuple):
  """A budget of the catalogue in a folder."""

  budget_name: str
  output: str

  @property
  def budget(self) -> dict:
    """The budget's entry in the catalogue."""
    return CATALOG["budgets"][self.budget_name]

  def prepare(self, text: list[str], data: str) -> None:
    """Writes text, data and networks into the folder, unless they are there.

    Raises InputError: data are missing, or the folder is of other data.
    """
    record = {"budget": self.budget_name, "text": text, "data": data}
    path = os.path.join(self.output, "prepared.json")
    if os.path.exists(path):
      if json_files.read(path) != record:
        raise errors.InputError(
          f"{path} is of another --text, --data_dir or --budget; choose "
          "another --output_dir"
        )
      return
    self._write_data(text, data)
    names = {**self.budget["networks"], **CATALOG["pretrainings"]}
    for name in names:
      pretraining = CATALOG["pretrainings"].get(name, {"network": name})
      if pretraining["network"] in self.budget["networks"]:
        self._write_network(name, pretraining)
    json_files.write(path, record)

  def _write_data(self, text, data):
    budget, out, tasks = self.budget, self.output, CATALOG["tasks"]
    most = budget.get("most_rows")
    train, dev = miniature_data.read_squad(data)
    train = train[:most]
    miniature_data.write_text(text, train, out, budget.get("most_documents"))
    miniature_data.write_squad(train, dev, out, budget["squad_dev"])
    miniature_data.write_tags(train, dev, out, most or tasks["names"]["rows"])
    flags = " ".join(task.get("flags", "") for task in tasks.values())
    for name in sorted(set(re.findall(r"--task_name=(\S+)", flags))):
      miniature_data.write_glue(data, name, out, most)
    miniature_data.write_unlabelled(out, tasks["sst-2-10k"]["rows"])

  def _write_network(self, name, pretraining):
    shape = self.budget["networks"][pretraining["network"]]
    longest = max(map(int, shape["phases"]))
    config = {
      "vocab_size": self.budget["vocab_size"], "hidden_act": "gelu",
      "hidden_size": shape["width"], "num_hidden_layers": shape["layers"],
      "num_attention_heads": shape["heads"],
      "intermediate_size": 4 * shape["width"],
      "max_position_embeddings": pretraining.get("length", longest),
      "type_vocab_size": 2,
      "initializer_range": shape["initializer_range"],
      "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
      **pretraining.get("config", {}),
    }
    json_files.write(self._network(name), config)
    json_files.write(
      self._network(name, "pretraining"), {**config, **_NO_DROPOUT}
    )

  def _network(self, name, kind="bert_config"):
    return os.path.join(self.output, "networks", name, f"{kind}.json")

  def _path(self, *parts):
    return os.path.join(self.output, *parts)

  def jobs(self) -> Iterator[Job]:
    """Yields all jobs, each once; its command is final when it comes.

    What depends on a result (the rate of a fine-tuning) is read when the next
    job is asked for: a caller that runs each job before has them all.
    """
    done = set()
    for job in self._all_jobs():
      if job.name not in done:
        done.add(job.name)
        yield job

  def _all_jobs(self):
    seeds = range(1, self.budget["seeds"] + 1)
    for claim, tasks in self.budget["claims"].items():
      contenders = CATALOG["claims"][claim]["contenders"]
      for contender in contenders:
        yield from self._pretraining_jobs(contender.get("of"))
      for task in tasks:
        for contender in contenders:
          yield from self._teacher_jobs(task, contender)
          yield from self._tuning_jobs(task, contender)
      has_target = CATALOG["claims"][claim].get("has_target")
      yield from self._seed_jobs(claim, seeds if has_target else seeds[:1])
    # A stopped run has all claims, some of them with fewer seeds.
    for seed in seeds[1:]:
      for claim in self.budget["claims"]:
        yield from self._seed_jobs(claim, [seed])

  def _seed_jobs(self, claim, seeds):
    """Yields the scores of a claim, a seed of all contenders after another."""
    for task in self.budget["claims"][claim]:
      for seed in seeds:
        for contender in CATALOG["claims"][claim]["contenders"]:
          yield from self._scoring_jobs(task, contender, seed)

  def _pretraining_jobs(self, name):
    """Yields what makes the weights of a pre-training, if it has a name."""
    if not name:
      yield self._script(
        "vocabulary", "create_vocabulary.py",
        f"--input_file={self._path('text', 'train.txt')}",
        f"--vocab_size={self.budget['vocab_size']}",
        f"--output_file={self._path('vocab.txt')}",
      )
      return
    yield from self._pretraining_jobs(None)
    entry = CATALOG["pretrainings"][name]
    if "from" in entry:
      yield from self._pretraining_jobs(entry["from"])
      yield self._growth(name, entry)
    for kind, text in ((entry["records"], "train"), ("held-out", "held")):
      yield self._script(
        f"records.{kind}-{entry['length']}", "create_pretraining_data.py",
        f"--input_file={self._path('text', f'{text}.txt')}",
        f"--vocab_file={self._path('vocab.txt')}",
        f"--max_seq_length={entry['length']}",
        f"--shard_size_mb={_SHARD_MB}",
        *CATALOG["records"][kind].format(predictions=_predictions(entry))
        .split(),
        f"--output_file={self._records(entry, kind)}",
      )
    yield self._pretraining(name, entry)

  def _growth(self, name, entry):
    """Returns the job that repeats the positions of shorter sequences."""
    before = CATALOG["pretrainings"][entry["from"]]
    # Its final_model would lack the generator of replaced tokens.
    path = f"seed_1/model.ckpt-{self._phase(before)['steps']}"
    return self._script(
      f"grown.{name}", "convert_checkpoint.py", "--to=tf2",
      f"--input={self._path('pretraining.' + entry['from'], path)}",
      f"--bert_config_file={self._network(entry['from'])}",
      f"--max_position_embeddings={entry['length']}",
      f"--output={self._path(f'grown.{name}')}",
    )

  def _script(self, name, script, *flags):
    """Returns the job of a script whose last flag says what it makes."""
    made = flags[-1].partition("=")[2]
    plan = self._plan(name, script, flags)
    return Job(plan, 0, self.budget["start_seconds"], made)

  def _plan(self, name, script, flags, data=""):
    row = rows.Row(
      name=name, source="", model="", data="", script=script,
      flags=tuple(flags), metrics=(), hours="", after="", note="",
    )
    return runs.Plan(row=row, model="", data=data, output=self.output)

  def _records(self, entry, kind):
    return self._path("records", f"{kind}-{entry['length']}.tfrecord")

  def _pretraining(self, name, entry):
    network, first = self.budget["networks"][entry["network"]], []
    if "from" in entry:
      first = [f"--init_checkpoint={self._path(f'grown.{name}')}"]
    phase = self._phase(entry)
    steps = phase["steps"]
    batch = max(1, network["batch_tokens"] // entry["length"])
    flags = [
      f"--bert_config_file={self._network(name, 'pretraining')}",
      f"--vocab_file={self._path('vocab.txt')}", "--do_train", "--do_eval",
      f"--input_file={self._records(entry, entry['records'])}",
      f"--eval_input_file={self._records(entry, 'held-out')}",
      f"--max_seq_length={entry['length']}",
      f"--max_predictions_per_seq={_predictions(entry)}",
      f"--train_batch_size={batch}", "--optimizer=adamw",
      f"--learning_rate={phase['rate']}", f"--num_train_steps={steps}",
      f"--num_warmup_steps={round(_WARMUP * steps)}",
      f"--dtype={self.budget['dtype']}", "--eval_batch_size=32",
      *first, *entry.get("flags", "").format(quarter=steps // 4).split(),
    ]
    tokens = steps * batch * entry["length"] * entry.get("cost", 1.0)
    return Job(
      self._plan(f"pretraining.{name}", "run_pretraining.py", flags), 1,
      self._seconds(network, tokens),
    )

  def _phase(self, entry):
    """Returns steps and rate of a pre-training, which its length decides."""
    phases = self.budget["networks"][entry["network"]]["phases"]
    return phases[str(entry["length"])]

  def _seconds(self, network, tokens):
    speed = network["tokens_per_second"]
    return self.budget["start_seconds"] + tokens / speed

  def _teacher_jobs(self, task, contender):
    """Yields what makes the teacher of a contender, if it has one; it last."""
    if "teacher" in contender:
      teacher = {"of": contender["teacher"]}
      yield from self._pretraining_jobs(teacher["of"])
      yield from self._tuning_jobs(task, teacher)
      yield from self._scoring_jobs(task, teacher, 1)

  def _tuning_jobs(self, task, contender):
    """Yields a job for each learning rate that there is to choose from."""
    rates = self._rates(contender)
    if len(rates) > 1 and "script" in CATALOG["tasks"][task]:
      for rate in rates:
        yield self._fine_tuning(task, contender, 1, rate, "tune")

  def _scoring_jobs(self, task, contender, seed):
    if "script" in CATALOG["tasks"][task]:
      rate = self._chosen_rate(task, contender)
      yield self._fine_tuning(task, contender, seed, rate, "final")

  def _rates(self, contender):
    if "features" in contender:
      return self.budget["feature_rates"]
    return self.budget["networks"][_network_of(contender)]["rates"]

  def _chosen_rate(self, task, contender):
    """Returns the rate that scored best on the rows kept apart."""
    rates = self._rates(contender)
    if len(rates) == 1:
      return rates[0]
    scores = {}
    for rate, job in zip(rates, self._tuning_jobs(task, contender)):
      result = job.result()
      if result is None:
        return _UNKNOWN_RATE
      scores[rate] = result["results"][CATALOG["tasks"][task]["result"]]
    return max(scores, key=lambda rate: scores[rate])

  def _fine_tuning(self, task_name, contender, seed, rate, kind):
    task = CATALOG["tasks"][task_name]
    name, epochs = f"{task_name}.{_key(contender)}", task["epochs"]
    if kind == "tune":
      name = f"tune.{name}.{rate}"
      epochs = task.get("tune_epochs", epochs)
    flags = [
      *self._weights(contender), "--do_train", "--do_eval",
      *task["flags"].split(), f"--num_train_epochs={epochs}",
      f"--learning_rate={rate}", "--optimizer=adamw",
      f"--dtype={self.budget['dtype']}", "--max_to_keep=1",
      *contender.get("flags", "").split(),
    ]
    if "features" in contender:
      flags += [
        "--freeze_encoder", f"--feature_layers={contender['features']}",
        f"--bilstm_size={self.budget['bilstm_size']}",
      ]
    for job in [*self._teacher_jobs(task_name, contender)][-1:]:
      path = os.path.join(job.plan.folder(job.seed), "final_model")
      flags.append(f"--teacher_checkpoint={path}")
    count = min(task["rows"], self.budget.get("most_rows", math.inf))
    count *= contender.get("cost", 1.0)
    if kind == "tune":
      count /= 2
    network = self.budget["networks"][_network_of(contender)]
    return Job(
      self._plan(name, task["script"], flags, data=self._path(kind)), seed,
      self._seconds(network, count * task["tokens"] * epochs),
    )

  def _weights(self, contender):
    """Returns the flags of a contender's network and of what it starts from."""
    name = contender.get("of")
    flags = [
      f"--bert_config_file={self._network(name or contender['network'])}",
      f"--vocab_file={self._path('vocab.txt')}",
    ]
    if name:
      folder = self._path(f"pretraining.{name}", "seed_1")
      steps = self._phase(CATALOG["pretrainings"][name])["steps"]
      checkpoint = (
        f"model.ckpt-{round(contender['at'] * 4) * (steps // 4)}"
        if "at" in contender else "final_model"
      )
      flags.append(f"--init_checkpoint={os.path.join(folder, checkpoint)}")
    return flags

  def scores(self, task_name: str, contender: dict) -> list[float]:
    """Returns the finished scores of a contender, a number for each seed."""
    task = CATALOG["tasks"][task_name]
    if "script" not in task:
      entry = CATALOG["pretrainings"][contender["of"]]
      found = [self._pretraining(contender["of"], entry).result()]
    else:
      found = [
        job.result() for seed in range(1, self.budget["seeds"] + 1)
        for job in self._scoring_jobs(task_name, contender, seed)
      ]
    values = [result["results"][task["result"]] for result in found if result]
    if task_name == "perplexity":
      return [math.exp(value) for value in values]
    return [value * task.get("scale", 100) for value in values]


def _predictions(entry):
  """Places for masked tokens: 15 % of a sequence, rounded up."""
  return math.ceil(0.15 * entry["length"])


def _network_of(contender):
  if "of" in contender:
    return CATALOG["pretrainings"][contender["of"]]["network"]
  return contender["network"]


def _key(contender):
  """Returns a contender's part of the names of its runs."""
  key = contender.get("of") or f"random-{contender['network']}"
  key += f"-at-{contender['at']}" if "at" in contender else ""
  name = contender.get("features") or contender.get("name")
  return f"{key}.{name}" if name else key


class _Run:
  """Jobs that are handed to threads, each when what it reads is made."""

  def __init__(self, miniature, after_each, threads):
    self._miniature, self._after_each = miniature, after_each
    self._threads = threads
    self._turn = threading.Condition()
    self._running, self._failed = set(), False
    self._took = self._expected = 0.0
    for job in miniature.jobs():
      if job.seed and job.is_done():
        job.run()  # Refuses a result of another command.
        self._count(job, job.result()["seconds"])

  def _count(self, job, seconds):
    self._took += seconds
    self._expected += job.seconds

  def work(self, cores):
    """Runs jobs on these cores until there are none; a thread's function."""
    if cores:
      os.sched_setaffinity(0, cores)  # Of this thread and what it starts.
    while job := self._next():
      start = time.monotonic()
      try:
        job.run()
        _remove_checkpoints(job)
        with self._turn:
          self._count(job, time.monotonic() - start)
          self._after_each()
      except BaseException:
        self._failed = True
        raise
      finally:
        with self._turn:
          self._running.remove(job.name)
          self._turn.notify_all()

  def _next(self):
    """Returns the first job that can run, None at the end; waits for it."""
    with self._turn:
      while not self._failed:
        plan = list(self._miniature.jobs())
        left = [job for job in plan if not job.is_done()]
        free = [job for job in left if job.name not in self._running]
        made = [job.product() for job in left]
        for job in free:
          if not job.waits_for(made):
            self._running.add(job.name)
            self._tell(job, plan, left)
            return job
        if not free:
          return None
        self._turn.wait()
      return None

  def _tell(self, job, plan, left):
    factor = self._took / self._expected if self._expected else 1.0
    rest = sum(other.seconds for other in left) - job.seconds
    print(
      f"[{len(plan) - len(left) + 1}/{len(plan)}] {job.name}: about "
      f"{progress.interval(factor * job.seconds)}; then "
      f"{progress.interval(factor * rest / self._threads)} are left\n"
      f"{shlex.join(job.command())}", flush=True,
    )


def run(miniature: Miniature, after_each, num_processes: int = 1) -> None:
  """Runs all jobs that are not done; says before each what it should take.

  Speeds of the budget are of one machine: the estimates are scaled by how long
  finished jobs took here.

  Args:
    after_each: called without arguments after every job that ran.
    num_processes: how many jobs run at a time, each on its share of the cores.
      Raises InputError: there are fewer cores.
  """
  shares = _shares_of_cores(num_processes)
  state = _Run(miniature, after_each, num_processes)
  with futures.ThreadPoolExecutor(num_processes) as pool:
    for future in [pool.submit(state.work, share) for share in shares]:
      future.result()


def _shares_of_cores(count):
  """Returns the cores of each process; of a single one None: all."""
  if count == 1:
    return [None]
  cores = sorted(os.sched_getaffinity(0))
  if count > len(cores):
    raise errors.InputError(
      f"--num_processes={count} is more than the {len(cores)} cores here"
    )
  return [cores[n::count] for n in range(count)]


def _remove_checkpoints(job):
  """Removes what only a resumed run needs, three times the size of a model."""
  if job.seed and not job.name.startswith("pretraining."):
    for path in pathlib.Path(job.plan.folder(job.seed)).glob("model.ckpt-*"):
      file_io.remove(str(path))


def describe(miniature: Miniature) -> list[str]:
  """Returns the lines of the plan: jobs with their estimates, and the sum."""
  plan = list(miniature.jobs())
  total = progress.interval(sum(job.seconds for job in plan))
  return [
    *(
      f"{progress.interval(job.seconds):>8}  {job.name}"
      f"{' (done)' if job.is_done() else ''}\n"
      f"          {shlex.join(job.command())}" for job in plan
    ),
    f"{len(plan)} jobs, about {total}: {miniature.budget['about']}",
  ]
