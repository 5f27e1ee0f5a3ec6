"""All finished runs in one table: published, ours, band and verdict."""

import os
import statistics

from common import file_io, json_files
from reproduction import rows, runs

REPRODUCED, OUTSIDE, NO_BAND = "reproduced", "outside the band", "no band"
SMOKE, CHANGED, OTHER = "smoke run", "recipe changed", "other weights"
AS_PEER, NOT_AS_PEER = "as the peer", "not as the peer"


def collect(output):
  """Returns the lines of the report.

  Args:
    output: folder of all rows.

  Returns:
    List of dicts, one for each row, kind of run and metric: row, source,
    metric, model, published, low, high (None: open), median, sd (None for a
    single seed), values, seeds, peer (the same four of the peer's runs),
    verdict, command, dates.
  """
  ours, peers = {}, {}
  for result in runs.finished(output):
    if result["row"] in rows.ROWS:
      key = (
        result["row"], result["model"], result["smoke"], *result["extra"]
      )
      groups = peers if result.get("side") == "peer" else ours
      groups.setdefault(key, []).append(result)
  # Of the peer alone there is a line, too.
  for key in peers:
    if not any(own[:3] == key for own in ours):
      ours[key] = []
  lines = []
  for key, results in ours.items():
    row = rows.ROWS[key[0]]
    # The peer knows none of our flags: its recipe is the row's.
    theirs = peers.get(key[:3], [])
    lines += [_line(row, metric, results, theirs) for metric in row.metrics]
  return lines


def _values(metric, results):
  """Returns the values of a metric, in its unit."""
  return [
    result["results"][metric.result] * metric.scale
    for result in results
    # What a server scores is in no file of ours.
    if metric.result in result["results"]
  ]


def _summary(values):
  """Returns {"median", "sd"} of values, None where there are too few."""
  return {
    "median": statistics.median(values) if values else None,
    "sd": statistics.stdev(values) if len(values) > 1 else None,
  }


def _line(row, metric, results, peers):
  values, theirs = _values(metric, results), _values(metric, peers)
  one = (results or peers)[0]
  return {
    "row": row.name,
    "source": row.source,
    "metric": metric.result or "GLUE's server",
    "model": one["model"],
    "published": metric.published,
    "low": metric.low,
    "high": metric.high,
    **_summary(values),
    "values": values,
    "seeds": [result["seed"] for result in results],
    "peer": {
      **_summary(theirs),
      "values": theirs,
      "seeds": [result["seed"] for result in peers],
    },
    "verdict": _verdict(row, metric, one, (values, theirs)),
    "command": one["command"],
    "dates": sorted({result["date"] for result in results or peers}),
  }


def _verdict(row, metric, result, sides):
  """Returns what a line may claim; a shortened run may claim nothing.

  Args:
    row, metric: of the line.
    result: one of its runs.
    sides: (our values, the peer's), lists.
  """
  values, theirs = sides
  # Whatever it scored, it is no evidence.
  if result["smoke"]:
    return SMOKE
  if result["extra"]:
    return CHANGED
  if row.model and result["model"] != row.model:
    return _verdict_by_peer(values, theirs)
  if not values or (metric.low is None and metric.high is None):
    return NO_BAND
  is_within = rows.is_within(metric, statistics.median(values))
  return REPRODUCED if is_within else OUTSIDE


def _verdict_by_peer(values, theirs):
  """Compares means; two seeds of either side are the least that can.

  As the peer: they differ by no more than two standard errors of the
  difference, which chance alone exceeds in about one of twenty comparisons of
  many seeds, and more often of few.
  """
  if min(len(values), len(theirs)) < 2:
    return OTHER
  error = sum(
    statistics.variance(side) / len(side) for side in (values, theirs)
  ) ** 0.5
  difference = abs(statistics.mean(values) - statistics.mean(theirs))
  return AS_PEER if difference <= 2 * error else NOT_AS_PEER


def band_text(line):
  """Returns a band in words: 84.0 to 88.0, at least 84.0, or -."""
  low, high = line["low"], line["high"]
  if low is None and high is None:
    return "-"
  if high is None:
    return f"at least {low:g}"
  return f"at most {high:g}" if low is None else f"{low:g} to {high:g}"


def _median_text(found):
  """Returns what a dict with median, sd and values says, or -."""
  if found["median"] is None:
    return "-"
  spread = f" (sd {found['sd']:.2f})" if found["sd"] is not None else ""
  return f"{found['median']:.2f}{spread}, {len(found['values'])} seeds"


def markdown(lines):
  """Returns the report as a Markdown table."""
  texts = [
    "# Published results and ours",
    "",
    "| row | metric | published | ours: median | peer: median | band | "
    "verdict | weights |",
    "|---|---|---|---|---|---|---|---|",
  ]
  for line in lines:
    texts.append(
      f"| {line['row']} | {line['metric']} | {line['published']:g} "
      f"({line['source']}) | {_median_text(line)} | "
      f"{_median_text(line['peer'])} | {band_text(line)} | "
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
  file_io.write_text(paths[0], text)
  json_files.write(paths[1], lines)
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
  # matplotlib counts y upwards; the first line is to be on top.
  for y, line in enumerate(reversed(lines)):
    difference = [value - line["published"] for value in line["values"]]
    low, high = line["low"], line["high"]
    if low is not None or high is not None:
      # An open side of a band ends where the picture does.
      left = -5 if low is None else low - line["published"]
      right = 5 if high is None else high - line["published"]
      axes.barh(y, right - left, left=left, height=0.6, color="#cfe8cf")
    peers = [value - line["published"] for value in line["peer"]["values"]]
    axes.plot(peers, [y] * len(peers), "x", color="#b35900")
    axes.plot(difference, [y] * len(difference), "o", color="#1f4e79")
    axes.plot(statistics.median(difference), y, "|", color="black", ms=16)
  names = [f"{line['row']}: {line['metric']}" for line in reversed(lines)]
  axes.set_yticks(range(len(lines)), names)
  axes.axvline(0, color="gray", lw=1)
  axes.set_xlabel(
    "difference from the published value; green: the band; x: the peer"
  )
  figure.tight_layout()
  figure.savefig(path, dpi=120)
  pyplot.close(figure)
  return [path]
