"""All finished runs in one table: published, ours, band and verdict."""

import json
import os
import statistics

from reproduction import rows, runs

REPRODUCED, OUTSIDE, NO_BAND = "reproduced", "outside the band", "no band"
SMOKE, CHANGED, OTHER = "smoke run", "recipe changed", "other weights"


def collect(output):
  """Returns the lines of the report.

  Args:
    output: folder of all rows.

  Returns:
    List of dicts, one for each row, kind of run and metric: row, source,
    metric, model, published, low, high (None: open), median, sd (None for a
    single seed), values, seeds, verdict, command, dates.
  """
  groups = {}
  for result in runs.finished(output):
    if result["row"] in rows.ROWS:
      key = (
        result["row"], result["model"], result["smoke"], *result["extra"]
      )
      groups.setdefault(key, []).append(result)
  lines = []
  for results in groups.values():
    row = rows.ROWS[results[0]["row"]]
    lines += [_line(row, metric, results) for metric in row.metrics]
  return lines


def _line(row, metric, results):
  values = [
    result["results"][metric.result] * metric.scale
    for result in results
    if metric.result in result["results"]
  ]
  median = statistics.median(values) if values else None
  return {
    "row": row.name,
    "source": row.source,
    "metric": metric.result or "GLUE's server",
    "model": results[0]["model"],
    "published": metric.published,
    "low": metric.low,
    "high": metric.high,
    "median": median,
    "sd": statistics.stdev(values) if len(values) > 1 else None,
    "values": values,
    "seeds": [result["seed"] for result in results],
    "verdict": _verdict(row, metric, results, median),
    "command": results[0]["command"],
    "dates": sorted({result["date"] for result in results}),
  }


def _verdict(row, metric, results, median):
  """Returns what a line may claim; a shortened run may claim nothing."""
  if results[0]["smoke"]:
    return SMOKE
  if results[0]["extra"]:
    return CHANGED
  if row.model and results[0]["model"] != row.model:
    return OTHER
  if median is None or (metric.low is None and metric.high is None):
    return NO_BAND
  return REPRODUCED if rows.is_within(metric, median) else OUTSIDE


def band_text(line):
  """Returns a band in words: 84.0 to 88.0, at least 84.0, or -."""
  low, high = line["low"], line["high"]
  if low is None and high is None:
    return "-"
  if high is None:
    return f"at least {low:g}"
  return f"at most {high:g}" if low is None else f"{low:g} to {high:g}"


def _ours_text(line):
  if line["median"] is None:
    return "-"
  spread = f" (sd {line['sd']:.2f})" if line["sd"] is not None else ""
  return f"{line['median']:.2f}{spread}, {len(line['values'])} seeds"


def markdown(lines):
  """Returns the report as a Markdown table."""
  texts = [
    "# Published results and ours",
    "",
    "| row | metric | published | ours: median | band | verdict | weights |",
    "|---|---|---|---|---|---|---|",
  ]
  for line in lines:
    texts.append(
      f"| {line['row']} | {line['metric']} | {line['published']:g} "
      f"({line['source']}) | {_ours_text(line)} | {band_text(line)} | "
      f"{line['verdict']} | {line['model']} |"
    )
  return "\n".join(texts) + "\n"


def write(output):
  """Writes report.md, report.json and, with matplotlib, report.png.

  Returns:
    (the Markdown, paths of the files).
  """
  lines = collect(output)
  text = markdown(lines)
  paths = [os.path.join(output, f"report.{kind}") for kind in ("md", "json")]
  contents = (text, json.dumps(lines, indent=2) + "\n")
  os.makedirs(output, exist_ok=True)
  for path, content in zip(paths, contents):
    with open(path, "w", encoding="utf-8") as stream:
      stream.write(content)
  plotted = [line for line in lines if line["median"] is not None]
  if plotted:
    paths += _plot(plotted, os.path.join(output, "report.png"))
  return text, paths


def _plot(lines, path):
  """Draws published values, bands and ours; returns [path], or []."""
  try:
    import matplotlib
  except ImportError:
    return []
  matplotlib.use("Agg")
  from matplotlib import pyplot

  figure, axes = pyplot.subplots(figsize=(8, 1 + 0.4 * len(lines)))
  for y, line in enumerate(reversed(lines)):
    difference = [value - line["published"] for value in line["values"]]
    low, high = line["low"], line["high"]
    if low is not None or high is not None:
      # An open side of a band ends where the picture does.
      left = -5 if low is None else low - line["published"]
      right = 5 if high is None else high - line["published"]
      axes.barh(y, right - left, left=left, height=0.6, color="#cfe8cf")
    axes.plot(difference, [y] * len(difference), "o", color="#1f4e79")
    axes.plot(statistics.median(difference), y, "|", color="black", ms=16)
  names = [f"{line['row']}: {line['metric']}" for line in reversed(lines)]
  axes.set_yticks(range(len(lines)), names)
  axes.axvline(0, color="gray", lw=1)
  axes.set_xlabel("difference from the published value; green: the band")
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  pyplot.close(figure)
  return [path]
