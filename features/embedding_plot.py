"""A plot of token vectors: their two principal components.

The components come from NumPy's SVD: scikit-learn's PCA would be a large
dependency for ten lines.
"""

import os
import textwrap

import numpy as np
import numpy.typing as npt

from common import errors, file_io

_LEGEND_WIDTH = 90  # Characters of a text.
_PASSES = 10

# (T tokens, their vectors [T, H])
Sentences = list[tuple[list[str], np.ndarray]]


def principal_components(
  vectors: npt.ArrayLike, count: int = 2
) -> tuple[np.ndarray, np.ndarray]:
  """Projects vectors on the directions in which they vary most (PCA).

  The sign of each direction is such that its largest entry is positive, so
  the same vectors always give the same picture.

  Args:
    vectors: [n, H].
    count: how many directions.

  Returns:
    float64 [n, count], zeros where there are fewer directions, and the share
    of the variance that each explains, [count].
  """
  centred = np.asarray(vectors, np.float64)
  # Components are directions of variance, which a common offset is none of.
  centred = centred - centred.mean(axis=0)
  _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
  found = min(count, len(sizes))
  largest = np.abs(directions).argmax(axis=1)  # [min(n, H)]
  # An SVD leaves the sign open, and may give another on another machine.
  signs = np.sign(directions[np.arange(len(directions)), largest])
  points = np.zeros([len(centred), count])
  points[:, :found] = centred @ (directions * signs[:, None])[:found].T
  shares = np.zeros(count)
  total = (sizes**2).sum()
  shares[:found] = (sizes**2)[:found] / total if total else 0
  return points, shares


def check_available() -> None:
  """Raises InputError if matplotlib is not installed."""
  _pyplot()


def _pyplot():
  # Imported here: the package is optional, and nothing else needs it.
  try:
    import matplotlib
    matplotlib.use("agg")  # A file, no window.
    from matplotlib import pyplot
  except ImportError as error:
    raise errors.InputError(
      "--embedding_plot needs matplotlib; pip install matplotlib"
    ) from error
  return pyplot


def save_plot(path: str, sentences: Sentences, title: str) -> None:
  """Draws the tokens of some texts as points with their names.

  Args:
    path: a name that ends in .png, .svg or .pdf; written whole or not at all.
    sentences: each gets a colour, which the legend explains.
    title: text above the plot.

  Raises:
    InputError: matplotlib is not installed, does not know the
      format, or cannot write the file.
  """
  pyplot = _pyplot()
  figure = draw(pyplot, sentences, title)
  kind = os.path.splitext(path)[1].removeprefix(".") or "png"
  try:
    # The temporary name has another ending, so the kind is given.
    with file_io.atomic_write(path) as temporary:
      figure.savefig(temporary, dpi=120, format=kind)
  except (ValueError, OSError) as error:
    raise errors.InputError(f"--embedding_plot={path}: {error}") from error
  finally:
    pyplot.close(figure)


def draw(pyplot, sentences: Sentences, title: str):
  """Returns the figure that `save_plot` saves; pyplot is matplotlib's."""
  points, shares = principal_components(
    # Of all texts together: their points are to be compared.
    np.concatenate([vectors for _, vectors in sentences])
  )
  figure, axes = pyplot.subplots(figsize=(9, 7), layout="constrained")
  labels, start = [], 0
  for number, (tokens, _) in enumerate(sentences):
    part = points[start : start + len(tokens)]
    start += len(tokens)
    # matplotlib's cycle has ten.
    colour = f"C{number % 10}"
    name = textwrap.shorten(" ".join(tokens), _LEGEND_WIDTH, placeholder=" ...")
    axes.scatter(
      part[:, 0], part[:, 1], s=14, color=colour, label=_escaped(name)
    )
    labels += [
      axes.annotate(
        _escaped(token), place, xytext=(3, 3), textcoords="offset points",
        fontsize=9, color=colour,
      )
      for token, place in zip(tokens, part)
    ]
  axes.set_title(title)
  for set_label, place in ((axes.set_xlabel, 0), (axes.set_ylabel, 1)):
    set_label(f"component {place + 1} ({shares[place]:.0%} of the variance)")
  # Below the axes, where it hides no point.
  figure.legend(loc="outside lower left", fontsize=9)
  _make_room(figure, axes, labels)
  return figure


def _escaped(text):
  # "$" would begin a formula.
  return text.replace("$", r"\$")


def _make_room(figure, axes, labels):
  """Widens the limits of the axes until all labels are inside.

  A label keeps its size in pixels, so what it needs in data units grows with
  the limits: the second pass is nearly right, and a few more settle it.
  """
  for _ in range(_PASSES):
    figure.canvas.draw()  # Places the labels.
    frame = axes.get_window_extent()
    boxes = [label.get_window_extent() for label in labels]
    low = np.min([box.min for box in boxes], axis=0)
    high = np.max([box.max for box in boxes], axis=0)
    if np.all(low >= frame.min) and np.all(high <= frame.max):
      return
    corners = [np.minimum(low - 2, frame.min), np.maximum(high + 2, frame.max)]
    (left, bottom), (right, top) = axes.transData.inverted().transform(corners)
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
