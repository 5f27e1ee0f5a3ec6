"""Reports finished runs in a table: published value, ours, band and verdict."""

import os
import shlex
import statistics

from common import errors, file_io, json_files
from reproduction import catalog, rows, runs

REPRODUCED, OUTSIDE, NO_BAND = "reproduced", "outside the band", "no band"
SMOKE, CHANGED, OTHER = "smoke run", "recipe changed", "other weights"
LESS_DATA = "less data"
_SEVERITY = [SMOKE, CHANGED, OTHER, LESS_DATA]


def _deviations(result):
  """Returns a run's deviations as (verdict, text), the most serious first."""
  row, deviations = rows.ROWS[result["row"]], []
  if result["smoke"]:
    deviations.append((SMOKE, f"stopped after {result['max_steps']} steps"))
  if result["extra"]:
    deviations.append((CHANGED, f"flags {shlex.join(result['extra'])}"))
  deviations += [
    (CHANGED, f"{name} {value} instead of {row.config[name]}")
    for name, value in result["config"].items() if value != row.config[name]
  ]
  # Trust the source that download.py recorded, not a folder's name.
  if row.model and (result["model"] != row.model or not result["source"]):
    deviations.append((OTHER, _weights_text(result)))
  for name, (lines, published) in result["fewer"].items():
    unit = "questions" if name.endswith(".json") else "lines"
    text = f"{name} with {lines:,} of {published:,} {unit}"
    deviations.append((LESS_DATA, text))
  if result["before"]:
    deviations += [
      (verdict, f"{row.after}: {text}")
      for verdict, text in _deviations(result["before"])
    ]
  return sorted(deviations, key=lambda pair: _SEVERITY.index(pair[0]))


def _weights_text(result):
  """Returns a text with a run's weights: path, shortened sums and source."""
  sums = [f"{name} {value[:16]}" for name, value in result["sha256"].items()]
  return (
    f"weights {result['weights']}, SHA-256: "
    f"{', '.join(sums) or 'unknown'}, source: "
    f"{', '.join(result['source']) or 'a folder that download.py did not make'}"
  )


def collect(output: str) -> list[dict]:
  """Returns the report's lines, one for each row, set of deviations and metric.

  A line has: row, source, metric, model, published, low, high (None: no limit),
  median, sd (None for a single seed), values, seeds, grid (see _grid),
  deviations, verdict, command, machines, dates.
  """
  kinds: dict[tuple, list] = {}
  for result in runs.finished(output):
    if result["row"] in rows.ROWS:
      kind = (result["row"], *_deviations(result))
      kinds.setdefault(kind, []).append(result)
  return [
    _line(metric, results)
    for kind, results in kinds.items() for metric in rows.ROWS[kind[0]].metrics
  ]


def glue_averages(output: str) -> list[str]:
  """Returns a sentence on GLUE for each model and set of deviations.

  A run's score is the mean of the task's metrics on the dev set, as on GLUE's
  server (arXiv 1804.07461). A task's score is the median over its runs.
  """
  glue = [
    name for name, data in catalog.DATA.items()
    if data.group == "glue" and name != "ax"  # The average excludes ax.
  ]
  found: dict = {}
  for result in runs.finished(output):
    row = rows.ROWS.get(result["row"])
    metrics = [
      100 * value for name, value in result["results"].items()
      if name.startswith("eval_") and not name.endswith("loss")
    ]
    if row and row.data in glue and metrics:
      otherwise = (
        text for verdict, text in _deviations(result) if verdict != LESS_DATA
      )
      kind = "; ".join([result["model"], *otherwise])
      scores = found.setdefault(kind, {}).setdefault(row.data, [])
      scores.append(statistics.mean(metrics))
  return [
    _glue_average(kind, {
      name: statistics.median(tasks[name]) for name in glue if name in tasks
    }, len(glue))
    for kind, tasks in found.items()
  ]


def _glue_average(kind, scores, num_tasks):
  listed = ", ".join(f"{name} {score:.1f}" for name, score in scores.items())
  return (
    f"GLUE average of {kind}: {statistics.mean(scores.values()):.1f} over "
    f"{len(scores)} of {num_tasks} tasks ({listed}), on dev sets; the official "
    f"average needs all {num_tasks}, on test sets."
  )


def _line(metric, results):
  row, deviations = rows.ROWS[results[0]["row"]], [*_deviations(results[0])]
  values = [
    result["results"][metric.result] * metric.scale
    for result in results
    # Only a server computes the missing scores.
    if metric.result in result["results"]
  ]
  median = statistics.median(values) if values else None
  return {
    "row": row.name, "source": row.source, "model": results[0]["model"],
    "metric": metric.result or "GLUE's server",
    "published": metric.published, "low": metric.low, "high": metric.high,
    "median": median,
    "sd": statistics.stdev(values) if len(values) > 1 else None,
    "values": values, "seeds": [result["seed"] for result in results],
    "grid": _grid(metric, results),
    "deviations": [text for _, text in deviations],
    "command": results[0]["command"],
    "machines": sorted({result["machine"] for result in results}),
    "dates": sorted({result["date"] for result in results}),
    "verdict": deviations[0][0] if deviations else _verdict(metric, median),
  }


def _grid(metric, results):
  """Returns the scores of --search over all seeds; None without --search.

  `values` has the score of each run, and `best` each seed's best settings.
  """
  values = [
    scores[metric.result] * metric.scale
    for result in results for _, scores in result["grid"]
  ]
  if len(values) < 2:
    return None
  return {
    "median": statistics.median(values), "sd": statistics.stdev(values),
    "values": values, "best": [
      " ".join("=".join(item) for item in result["grid"][0][0].items())
      for result in results
    ],
  }


def _verdict(metric, median):
  """Returns the verdict on runs without deviations."""
  if median is None or (metric.low is None and metric.high is None):
    return NO_BAND
  return REPRODUCED if metric.is_within(median) else OUTSIDE


def band_text(line: dict) -> str:
  """Returns a band as text: 84 to 88, at least 84, or -."""
  low, high = line["low"], line["high"]
  if low is None:
    return "-" if high is None else f"at most {high:g}"
  return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


def _median_text(line):
  if line["median"] is None:
    return "-"
  spread = f" (sd {line['sd']:.2f})" if line["sd"] is not None else ""
  count, grid = len(line["values"]), line["grid"]
  text = f"{line['median']:.2f}{spread}, {count} seed{'s' * (count != 1)}"
  if not grid:
    return text
  # Like published results: the best settings on the dev set, by first metric.
  return (
    f"{text}: {'; '.join(grid['best'])}, the best of "
    f"{len(grid['values']) // count} settings; median of all "
    f"{grid['median']:.2f} (sd {grid['sd']:.2f}), "
    f"{min(grid['values']):.2f} to {max(grid['values']):.2f}"
  )


def markdown(lines: list[dict]) -> str:
  """Returns the report as a Markdown table."""
  texts = [
    "# Published results, and here",
    "",
    "| row | metric | published | here: median | band | verdict | deviations "
    "| machine, date |",
    "|---|---|---|---|---|---|---|---|",
  ]
  for line in lines:
    cells = (
      line["row"], line["metric"], f"{line['published']:g} ({line['source']})",
      _median_text(line), band_text(line), line["verdict"],
      "; ".join(line["deviations"]) or "none",
      "; ".join(line["machines"] + line["dates"]),
    )
    # Escape the separator of cells, which a path or a flag may contain.
    texts.append(f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |")
  return "\n".join(texts) + "\n"


def write(output: str) -> list[str]:
  """Writes report.md and report.json; returns the Markdown and a sentence.

  Raises InputError: the folder has no finished run.
  """
  lines = collect(output)
  if not lines:
    raise errors.InputError(
      f"--output_dir={output} holds no finished run; run a row first: "
      "--row=NAME, see --list"
    )
  text = "\n".join([markdown(lines), *glue_averages(output), ""])
  page, values = (os.path.join(output, f"report.{n}") for n in ("md", "json"))
  file_io.write_text(page, text)
  json_files.write(values, lines)
  return [text, f"written: {page}, {values}"]
