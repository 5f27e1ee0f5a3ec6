"""The page of the miniature: the paper's numbers, ours, and plots.

miniature_results.json has all of it as numbers, for docs/miniature.ipynb.
"""

import html
import os
import statistics
from collections.abc import Iterator

from common import errors, file_io, json_files
from reproduction import miniature

BEGIN, END = "<!-- miniature: begin -->", "<!-- miniature: end -->"
SEEN, WITHIN = "seen", "within the spread"
REVERSED, MISSING, SMOKE = "not seen: reversed", "not run", "smoke run"
_LOWER_IS_BETTER = ("perplexity",)
_SPREADS = 2.0  # Of the standard deviation: what counts as a difference.
_CURVE_POINTS = 50
# Losses of words, and the parts of a pre-training that the page shows.
_LOSSES = ("masked_lm_loss", "next_word_loss")
_PARTS = (0.1, 0.25, 0.5, 0.75, 1.0)


def verdict(better: list[float], worse: list[float]) -> dict:
  """Compares two contenders' scores, of which the first should be higher.

  Returns difference (of the medians), sd (of a difference between single runs;
  0 where there is one run each) and verdict: a difference counts from two
  standard deviations on.
  """
  if not better or not worse:
    return {"difference": None, "sd": None, "verdict": MISSING}
  difference = statistics.median(better) - statistics.median(worse)
  sd = sum(_sd(values) ** 2 for values in (better, worse)) ** 0.5
  if abs(difference) <= _SPREADS * sd or not difference:
    found = WITHIN
  else:
    found = SEEN if difference > 0 else REVERSED
  return {"difference": difference, "sd": sd, "verdict": found}


def _sd(values):
  return statistics.stdev(values) if len(values) > 1 else 0.0


def collect(mini: miniature.Miniature) -> dict:
  """Returns all that is finished, as it goes into the JSON file."""
  plan = list(mini.jobs())
  results = {job.name: job.result() for job in plan if job.seed}
  found = {name: result for name, result in results.items() if result}
  return {
    "budget": mini.budget_name, "about": mini.budget["about"],
    "jobs": len(plan), "finished": sum(job.is_done() for job in plan),
    "hours": sum(result["seconds"] for result in found.values()) / 3600,
    "machines": sorted({result["machine"] for result in found.values()}),
    "dates": sorted({result["date"] for result in found.values()}),
    "claims": [
      _claim(mini, name, tasks)
      for name, tasks in mini.budget["claims"].items()
    ],
    "curves": {
      job.plan.row.name: {
        "points": _curve(job), "held_out": found[job.name]["results"],
      }
      for job in plan
      if job.name in found and job.name.startswith("pretraining.")
    },
  }


def _claim(mini, name, tasks):
  claim, tables = miniature.CATALOG["claims"][name], []
  for task in tasks:
    scores = {
      contender["label"]: mini.scores(task, contender)
      for contender in claim["contenders"]
    }
    sign = -1 if task in _LOWER_IS_BETTER else 1
    tables.append({
      "task": task, "title": miniature.CATALOG["tasks"][task]["title"],
      "scores": scores, "paper": {
        contender["label"]: contender.get("paper", {}).get(task)
        for contender in claim["contenders"]
      },
      "directions": [
        {
          "expected": f"{better} {'><'[sign < 0]} {worse}",
          **verdict(*(
            [sign * value for value in scores[label]]
            for label in (better, worse)
          )),
          **({"verdict": SMOKE} if mini.budget.get("is_smoke") else {}),
        }
        for better, worse in claim["expected"]
      ],
    })
  return {
    "name": name, "title": claim["title"], "source": claim["source"],
    "note": claim.get("note", ""), "tables": tables,
  }


def _curve(job):
  """Returns some 50 pairs (step, loss of a word) of a pre-training."""
  path = os.path.join(job.plan.folder(job.seed), "train_log.jsonl")
  lines = [json_files.parse(line) for _, line in file_io.read_lines(path)]
  pairs = [
    (line["step"], line[name]) for line in lines
    for name in _LOSSES if name in line
  ]
  stride = max(1, len(pairs) // _CURVE_POINTS)
  return pairs[(len(pairs) - 1) % stride :: stride]  # The last is among them.


def markdown(results: dict) -> str:
  """Returns the page; plots are miniature_NAME.svg next to it."""
  return "\n".join(_lines(results))


def _lines(results):
  state = (
    f"{results['finished']} of {results['jobs']} jobs, "
    f"{results['hours']:.1f} hours; {'; '.join(results['machines'])}; "
    f"{', '.join(results['dates'])}"
  )
  yield f"Budget `{results['budget']}` ({results['about']}): {state}."
  yield (
    "Ours is the median over the seeds of fine-tuning ± standard deviation. "
    "A direction is seen where medians differ by more than two standard "
    "deviations of a difference."
  )
  for claim in results["claims"]:
    yield f"\n### {claim['title']}\n\nThe paper: {claim['source']}."
    if claim["note"]:
      yield claim["note"]
    for table in claim["tables"]:
      yield f"\n| {table['title']} | paper | ours | seeds |\n|---|---|---|---|"
      for label, values in table["scores"].items():
        paper = table["paper"][label]
        yield (
          f"| {label} | {'-' if paper is None else format(paper, 'g')} | "
          f"{_score_text(values)} | {len(values)} |"
        )
      yield "\n| expected | difference | verdict |\n|---|---|---|"
      for line in table["directions"]:
        yield f"| {line['expected']} | {_gap_text(line)} | {line['verdict']} |"
    yield f"\n![{claim['title']}]({_plot_name(claim)})"
  yield "\n### Learning curves\n"
  yield (
    "The loss of masked words (of the next word, left to right) in training, "
    "after parts of the steps, and on held-out documents at the end.\n"
  )
  parts = " | ".join(f"{part:.0%}" for part in _PARTS)
  yield f"| pre-training | steps | {parts} | held out |"
  yield "|---|---|" + "---|" * (len(_PARTS) + 1)
  for name, curve in results["curves"].items():
    yield _curve_text(name.partition(".")[2], curve)


def _curve_text(name, curve):
  """Returns a pre-training's row: losses after parts of its steps."""
  points, end = curve["points"], curve["held_out"]
  losses = [points[round(part * (len(points) - 1))][1] for part in _PARTS]
  losses += [end[loss] for loss in _LOSSES if loss in end]
  texts = [name, f"{end['global_step']:,.0f}", *map("{:.2f}".format, losses)]
  return f"| {' | '.join(texts)} |"


def _score_text(values):
  if not values:
    return "-"
  spread = f" ± {_sd(values):.1f}" if len(values) > 1 else ""
  return f"{statistics.median(values):.1f}{spread}"


def _gap_text(line):
  if line["difference"] is None:
    return "-"
  return f"{line['difference']:+.1f} (sd {line['sd']:.1f})"


def _plot_name(claim):
  return f"miniature_{claim['name']}.svg"


def plot(claim: dict) -> str:
  """Returns an SVG: a line for each contender of each task, a dot a seed."""
  shapes, y = [], 0
  for table in claim["tables"]:
    y += 28
    shapes.append(_text(8, y, table["title"], "bold"))
    found = [value for v in table["scores"].values() for value in v]
    low, high = min(found, default=0.0), max(found, default=1.0)
    for label, values in table["scores"].items():
      y += 20
      shapes.append(_text(20, y, label))
      shapes.append(
        f'<line x1="240" x2="600" y1="{y - 4}" y2="{y - 4}" stroke="#ddd"/>'
      )
      for value in values:
        x = 240 + 360 * (value - low) / ((high - low) or 1.0)
        shapes.append(
          f'<circle cx="{x:.1f}" cy="{y - 4}" r="4" fill="#1f77b4" '
          f'fill-opacity="0.6"><title>{value:.2f}</title></circle>'
        )
    y += 18
    shapes += [_text(236, y, f"{low:.1f}"), _text(580, y, f"{high:.1f}")]
  return (
    f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{y + 12}" '
    'font-family="sans-serif" font-size="12">\n'
    '<rect width="100%" height="100%" fill="white"/>\n'
    + "\n".join(shapes) + "\n</svg>\n"
  )


def _text(x, y, text, weight="normal"):
  words = html.escape(text)
  return f'<text x="{x}" y="{y}" font-weight="{weight}">{words}</text>'


def write(mini: miniature.Miniature, page: str | None) -> list[str]:
  """Writes the page, and the JSON and plots next to it; returns the files.

  Args:
    page: a Markdown file of one's own, whose text between the two markers is
      replaced; None: miniature.md in the folder of the runs.
  """
  results = collect(mini)
  path = page or os.path.join(mini.output, "miniature.md")
  folder = os.path.dirname(path)
  values = os.path.join(folder, "miniature_results.json")
  before, after = around(page) if page else ("# The paper in miniature\n\n", "")
  file_io.write_text(path, f"{before}{markdown(results)}\n{after}")
  file_io.write_text(values, json_files.line(results))
  return [path, values, *_write_plots(results, folder)]


def around(page: str) -> tuple[str, str]:
  """Returns what a file has up to the first marker, and from the second on.

  Raises InputError: there is no such file, or not both markers in it.
  """
  with file_io.open_for_reading(page) as stream:
    text = stream.read().decode("utf-8")
  if not 0 <= text.find(BEGIN) < text.find(END):
    raise errors.InputError(f"{page} lacks {BEGIN} and, below it, {END}")
  return text.partition(BEGIN)[0] + BEGIN + "\n", END + text.partition(END)[2]


def _write_plots(results, folder) -> Iterator[str]:
  for claim in results["claims"]:
    path = os.path.join(folder, _plot_name(claim))
    file_io.write_text(path, plot(claim))
    yield path
