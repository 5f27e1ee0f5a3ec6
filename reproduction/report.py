"""Reports finished runs in a table: published and new value, band, verdict.

No TensorFlow is imported here.
"""

import os
import statistics

from common import errors, file_io, json_files
from reproduction import glue_average, rows, runs

REPRODUCED, OUTSIDE, NO_BAND = "reproduced", "outside the band", "no band"


def collect(output: str) -> list[dict]:
  """Returns the report's lines, one per row, set of deviations and metric.

  A line has: row, source, metric, model, published, low, high (None: no limit),
  median, sd (None without enough scores), values, seeds, deviations, verdict,
  command, machines, dates; grid (median, sd and values of all runs of --search)
  and best (each seed's best settings).
  """
  groups: dict[tuple, list] = {}
  for result in runs.finished(output):
    if result["row"] in rows.ROWS:
      key = (result["row"], *map(tuple, result["deviations"]))
      groups.setdefault(key, []).append(result)
  return [
    _line(rows.ROWS[key[0]], metric, results)
    for key, results in groups.items()
    for metric in rows.ROWS[key[0]].metrics
  ]


def _line(row, metric: rows.Metric, results: list[dict]) -> dict:
  first, grid = results[0], [pair for r in results for pair in r["grid"]]
  # Scores are missing if only GLUE's server computes them.
  scores = [r["results"] for r in results if metric.result in r["results"]]
  summary, verdict = _summary(metric, scores), NO_BAND
  low, high = metric.low, metric.high
  if scores and (low, high) != (None, None):
    is_above_low = low is None or summary["median"] >= low
    is_below_high = high is None or summary["median"] <= high
    verdict = REPRODUCED if is_above_low and is_below_high else OUTSIDE
  return {
    "row": row.name,
    "source": row.source,
    "model": first["model"],
    "metric": metric.result or "GLUE's server",
    "published": metric.published,
    "low": low,
    "high": high,
    **summary,
    "seeds": [result["seed"] for result in results],
    "grid": _summary(metric, [scores for _, scores in grid]) if grid else None,
    "best": [result["grid"][0][0] for result in results if result["grid"]],
    "deviations": [text for _, text in first["deviations"]],
    "command": first["command"],
    "machines": sorted({result["machine"] for result in results}),
    "dates": sorted({result["date"] for result in results}),
    "verdict": first["deviations"][0][0] if first["deviations"] else verdict,
  }


def _summary(metric: rows.Metric, scores) -> dict:
  """Returns the median, sd and values of a metric in a list of scores."""
  values = [each[metric.result] * metric.scale for each in scores]
  return {
    "median": statistics.median(values) if values else None,
    "sd": statistics.stdev(values) if len(values) > 1 else None,
    "values": values,
  }


def _text(summary) -> str:
  spread = "" if summary["sd"] is None else f" (sd {summary['sd']:.2f})"
  return f"{summary['median']:.2f}{spread}"


def _median_text(line: dict):
  if not line["values"]:
    return "-"
  count, grid = len(line["values"]), line["grid"]
  text = f"{_text(line)}, {count} seed{'s' * (count != 1)}"
  if not grid:
    return text
  best = [" ".join(f"{n}={v}" for n, v in b.items()) for b in line["best"]]
  # As in the paper, the main metric on the dev set selects the best settings.
  return (
    f"{text}: {'; '.join(best)}, the best of {len(grid['values']) // count} "
    f"settings; median of all {_text(grid)}, {min(grid['values']):.2f} to "
    f"{max(grid['values']):.2f}"
  )


def markdown(lines: list[dict]) -> str:
  """Returns the report as a Markdown table."""
  text = (
    "# Published and reproduced results\n\n"
    "| row | metric | published | here: median | band | verdict | deviations "
    "| machine, date |\n|---|---|---|---|---|---|---|---|\n"
  )
  for line in lines:
    low, high = line["low"], line["high"]
    limits = [f"{limit:g}" for limit in (low, high) if limit is not None]
    side = "at most " if low is None else "at least " if high is None else ""
    cells = (
      line["row"],
      line["metric"],
      f"{line['published']:g} ({line['source']})",
      _median_text(line),
      side + " to ".join(limits) if limits else "-",
      line["verdict"],
      "; ".join(line["deviations"]) or "none",
      "; ".join(line["machines"] + line["dates"]),
    )
    # Escape the separator of cells, which a path or a flag may contain.
    text += f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |\n"
  return text


def write(output: str) -> list[str]:
  """Writes report.md and report.json; returns texts to print: table, paths.

  Raises InputError: the folder has no finished run, or one of an old version.
  """
  lines = collect(output)
  if not lines:
    raise errors.InputError(
      f"--output_dir={output} has no finished run; run a row first: "
      "--row=NAME, see --list"
    )
  text = markdown(lines) + glue_average.markdown(lines)
  page, values = (os.path.join(output, f"report.{n}") for n in ("md", "json"))
  file_io.write_text(page, text)
  json_files.write(values, lines)
  return [text, f"written: {page}, {values}"]
