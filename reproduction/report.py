"""All finished runs in one table: published, ours, band and verdict."""

import os
import shlex
import statistics

from common import errors, file_io, json_files
from reproduction import rows, runs

REPRODUCED, OUTSIDE, NO_BAND = "reproduced", "outside the band", "no band"
SMOKE, CHANGED, OTHER = "smoke run", "recipe changed", "other weights"
LESS_DATA = "less data"
AS_PEER, NOT_AS_PEER = "as the peer", "not as the peer"


def deviations(result: dict) -> list[str]:
  """Returns what a run (result.json) did otherwise than the published one."""
  row, found = rows.ROWS[result["row"]], []
  if result["smoke"]:
    # Older results do not say the number.
    found.append(f"stopped after {result.get('max_steps') or 'fewer'} steps")
  if row.model and result["model"] != row.model:
    found.append(f"weights {result.get('weights', result['model'])}")
  for name, (lines, published) in result.get("fewer", {}).items():
    unit = "questions" if name.endswith(".json") else "lines"
    found.append(f"{name} with {lines:,} of {published:,} {unit}")
  if result["extra"]:
    found.append(f"flags {shlex.join(result['extra'])}")
  return found


def collect(output: str) -> list[dict]:
  """Returns the lines of the report, one for each row, kind of run and metric.

  A line has: row, source, metric, model, published, low, high (None: open),
  median, sd (None for a single seed), values, seeds, peer (the same four of
  the peer's runs), deviations, verdict, command, machines, dates.

  Args:
    output: folder of all rows.
  """
  ours, peers = {}, {}
  for result in runs.finished(output):
    if result["row"] in rows.ROWS:
      # The peer knows none of our flags: its recipe is the row's.
      base = (result["row"], *deviations({**result, "extra": []}))
      if result.get("side") == "peer":
        peers.setdefault(base, []).append(result)
      else:
        key = (base, tuple(result["extra"]))
        ours.setdefault(key, []).append(result)
  # Of the peer alone there is a line, too.
  for base in [*peers]:
    if not any(base == known for known, _ in ours):
      ours[base, ()] = []
  return [
    _line(metric, results, peers.get(base, []))
    for (base, _), results in ours.items()
    for metric in rows.ROWS[base[0]].metrics
  ]


def _summary(metric, results):
  """Returns median, sd, values (in the metric's unit) and seeds of runs."""
  values = [
    result["results"][metric.result] * metric.scale
    for result in results
    # What a server scores is in no file of ours.
    if metric.result in result["results"]
  ]
  return {
    "median": statistics.median(values) if values else None,
    "sd": statistics.stdev(values) if len(values) > 1 else None,
    "values": values,
    "seeds": [result["seed"] for result in results],
  }


def _line(metric, results, peers):
  one = (results or peers)[0]
  row = rows.ROWS[one["row"]]
  runs_made = results + peers
  line = {
    "row": row.name,
    "source": row.source,
    "metric": metric.result or "GLUE's server",
    "model": one["model"],
    "published": metric.published,
    "low": metric.low,
    "high": metric.high,
    **_summary(metric, results),
    "peer": _summary(metric, peers),
    "deviations": deviations(one),
    "command": one["command"],
    "machines": sorted({r["machine"] for r in runs_made if "machine" in r}),
    "dates": sorted({r["date"] for r in runs_made}),
  }
  return {**line, "verdict": _verdict(metric, one, line)}


def _verdict(metric, result, line):
  """Returns what a line may claim; a shortened run may claim nothing."""
  model = rows.ROWS[result["row"]].model
  # Whatever it scored, it is no evidence.
  if result["smoke"]:
    return SMOKE
  if result["extra"]:
    return CHANGED
  if model and result["model"] != model:
    return _verdict_by_peer(line["values"], line["peer"]["values"])
  if result.get("fewer"):
    return LESS_DATA
  if not line["values"] or (metric.low is None and metric.high is None):
    return NO_BAND
  return REPRODUCED if metric.is_within(line["median"]) else OUTSIDE


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


def band_text(line: dict) -> str:
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
  return f"{found['median']:.2f}{spread}, {_seeds_text(found)}"


def _seeds_text(found):
  count = len(found["values"])
  return f"{count} seed{'s' * (count != 1)}"


def markdown(lines: list[dict]) -> str:
  """Returns the report as a Markdown table."""
  texts = [
    "# Published results and ours",
    "",
    "| row | metric | published | ours: median | peer: median | band | "
    "verdict | deviations | machine, date |",
    "|---|---|---|---|---|---|---|---|---|",
  ]
  for line in lines:
    cells = (
      line["row"], line["metric"], f"{line['published']:g} ({line['source']})",
      _median_text(line), _median_text(line["peer"]), band_text(line),
      line["verdict"], "; ".join(line["deviations"]) or "none",
      "; ".join(line["machines"] + line["dates"]),
    )
    # A path or a flag may hold what separates cells.
    texts.append(f"| {' | '.join(c.replace('|', '&#124;') for c in cells)} |")
  return "\n".join(texts) + "\n"


def write(output: str) -> list[str]:
  """Writes report.md, report.json and, with matplotlib, report.png.

  Returns:
    The Markdown, then sentences about what was written and what was not.

  Raises:
    InputError: there is no finished run.
  """
  if not runs.finished(output):
    raise errors.InputError(
      f"--output_dir={output} holds no finished run; run a row first: "
      "--row=NAME, see --list"
    )
  lines = collect(output)
  text = markdown(lines)
  paths = [
    os.path.join(output, f"report.{kind}") for kind in ("md", "json", "png")
  ]
  file_io.write_text(paths[0], text)
  json_files.write(paths[1], lines)
  missing = []
  plotted = [line for line in lines if line["values"]]
  try:
    if plotted:
      _plot(plotted, paths[2])
  except ImportError:
    missing = [
      f"{paths[2]} is not drawn: it needs matplotlib; pip install matplotlib"
    ]
  written = paths if plotted and not missing else paths[:2]
  return [text, f"written: {', '.join(written)}", *missing]


def label(line: dict) -> str:
  """Returns what a line of the picture says next to its points."""
  return "\n".join([
    f"{line['row']}, {line['metric']}: {_seeds_text(line)}, {line['verdict']}",
    *line["deviations"],
    *line["machines"],
    " ".join(line["dates"]),
  ])


def _plot(lines, path):
  """Draws published values, bands and ours; raises ImportError."""
  from matplotlib import figure

  labels = [label(line) for line in lines]
  heights = [0.4 + 0.16 * text.count("\n") for text in labels]
  picture = figure.Figure(figsize=(10, 1.4 + sum(heights)), layout="tight")
  axes = picture.subplots()
  # matplotlib counts y upwards; the first line is to be on top.
  places = [-sum(heights[:i]) - heights[i] / 2 for i in range(len(lines))]
  for y, line in zip(places, lines, strict=True):
    _draw_line(axes, y, line)
  axes.set_yticks(places, labels, fontsize=8)
  axes.axvline(0, color="gray", lw=1)
  axes.set_title("Published results and ours")
  axes.set_xlabel(
    "difference from the published value; green: the band; dots: our seeds; "
    "crosses: the peer's"
  )
  picture.savefig(path, dpi=100)


def _draw_line(axes, y, line):
  published, low, high = line["published"], line["low"], line["high"]
  if low is not None or high is not None:
    # An open side of a band ends where the picture does.
    left = -5 if low is None else low - published
    right = 5 if high is None else high - published
    axes.barh(y, right - left, left=left, height=0.25, color="#cfe8cf")
  for values, marker, color in (
    (line["peer"]["values"], "x", "#b35900"), (line["values"], "o", "#1f4e79"),
  ):
    axes.plot(
      [value - published for value in values], [y] * len(values), marker,
      color=color,
    )
  axes.plot(line["median"] - published, y, "|", color="black", ms=16)
