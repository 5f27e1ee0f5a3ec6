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
# What results of before these fields lack.
_DEFAULTS = {"side": "ours", "max_steps": "fewer", "fewer": {}, "machine": ""}


def _deviations(result):
  """Yields (verdict, text) of what a run did otherwise, the gravest first."""
  model = rows.ROWS[result["row"]].model
  if result["smoke"]:
    yield SMOKE, f"stopped after {result['max_steps']} steps"
  if result["extra"]:
    yield CHANGED, f"flags {shlex.join(result['extra'])}"
  if model and result["model"] != model:
    yield OTHER, f"weights {result.get('weights', result['model'])}"
  for name, (lines, published) in result["fewer"].items():
    unit = "questions" if name.endswith(".json") else "lines"
    yield LESS_DATA, f"{name} with {lines:,} of {published:,} {unit}"


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
    result = {**_DEFAULTS, **result}
    if result["row"] in rows.ROWS:
      # The peer knows none of our flags: its recipe is the row's.
      base = (result["row"], *_deviations({**result, "extra": []}))
      if result["side"] == "peer":
        peers.setdefault(base, []).append(result)
      else:
        ours.setdefault((base, tuple(result["extra"])), []).append(result)
  # Of the peer alone there is a line, too.
  known = {base for base, _ in ours}
  ours |= {(base, ()): [] for base in peers if base not in known}
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
    "values": values, "seeds": [result["seed"] for result in results],
  }


def _line(metric, ours, peers):
  one = (ours or peers)[0]
  row, deviations = rows.ROWS[one["row"]], [*_deviations(one)]
  line = {
    "row": row.name, "source": row.source, "model": one["model"],
    "metric": metric.result or "GLUE's server",
    "published": metric.published, "low": metric.low, "high": metric.high,
    **_summary(metric, ours), "peer": _summary(metric, peers),
    "deviations": [text for _, text in deviations], "command": one["command"],
    "machines": sorted({run["machine"] for run in ours + peers} - {""}),
    "dates": sorted({run["date"] for run in ours + peers}),
  }
  verdict = deviations[0][0] if deviations else _verdict(metric, line)
  if verdict == OTHER:
    verdict = _verdict_by_peer(line["values"], line["peer"]["values"])
  return {**line, "verdict": verdict}


def _verdict(metric, line):
  """Returns what a run that deviates in nothing may claim."""
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
  """Returns a band in words: 84 to 88, at least 84, or -."""
  low, high = line["low"], line["high"]
  if low is None:
    return "-" if high is None else f"at most {high:g}"
  return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


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
  lines = collect(output)
  if not lines:
    raise errors.InputError(
      f"--output_dir={output} holds no finished run; run a row first: "
      "--row=NAME, see --list"
    )
  text = markdown(lines)
  page, values, picture = (
    os.path.join(output, f"report.{kind}") for kind in ("md", "json", "png")
  )
  file_io.write_text(page, text)
  json_files.write(values, lines)
  written = f"written: {page}, {values}"
  plotted = [line for line in lines if line["values"]]
  if not plotted:
    return [text, written]
  try:
    _plot(plotted, picture)
  except ImportError:
    missing = "is not drawn: it needs matplotlib; pip install matplotlib"
    return [text, written, f"{picture} {missing}"]
  return [text, f"{written}, {picture}"]


def label(line: dict) -> str:
  """Returns what a line of the picture says next to its points."""
  return "\n".join([
    f"{line['row']}, {line['metric']}: {_seeds_text(line)}, {line['verdict']}",
    *line["deviations"], *line["machines"], " ".join(line["dates"]),
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
    places = [value - published for value in values]
    axes.scatter(places, [y] * len(values), marker=marker, color=color)
  axes.plot(line["median"] - published, y, "|", color="black", ms=16)
