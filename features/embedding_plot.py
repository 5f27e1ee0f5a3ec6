"""A picture of token vectors: their two principal components."""

import os

import numpy as np

from common import errors, file_io


def principal_components(vectors, count=2):
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
  centred = centred - centred.mean(axis=0)
  _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
  found = min(count, len(sizes))
  largest = np.abs(directions).argmax(axis=1)
  signs = np.sign(directions[np.arange(len(directions)), largest])
  points = np.zeros([len(centred), count])
  points[:, :found] = centred @ (directions * signs[:, None])[:found].T
  shares = np.zeros(count)
  total = (sizes**2).sum()
  shares[:found] = (sizes**2)[:found] / total if total else 0
  return points, shares


def check_available():
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


def save_plot(path, sentences, title):
  """Draws the tokens of some texts as points with their names.

  Args:
    path: a name that ends in .png, .svg or .pdf; written whole or not at all.
    sentences: list of (tokens, vectors): T strings and [T, H]; each gets a
      colour.
    title: text above the plot.

  Raises:
    InputError: matplotlib is not installed, does not know the
      format, or cannot write the file.
  """
  pyplot = _pyplot()
  points, shares = principal_components(
    np.concatenate([vectors for _, vectors in sentences])
  )
  figure, axes = pyplot.subplots(figsize=(9, 7), layout="constrained")
  start = 0
  for number, (tokens, _) in enumerate(sentences):
    part = points[start : start + len(tokens)]
    start += len(tokens)
    colour = f"C{number % 10}"
    axes.scatter(part[:, 0], part[:, 1], s=14, color=colour)
    for token, (x, y) in zip(tokens, part):
      # "$" would begin a formula.
      axes.annotate(
        token.replace("$", r"\$"), (x, y), xytext=(3, 3),
        textcoords="offset points", fontsize=9, color=colour,
      )
  axes.set_title(title)
  for set_label, place in ((axes.set_xlabel, 0), (axes.set_ylabel, 1)):
    set_label(f"component {place + 1} ({shares[place]:.0%} of the variance)")
  kind = os.path.splitext(path)[1].removeprefix(".") or "png"
  try:
    with file_io.atomic_write(path) as temporary:
      figure.savefig(temporary, dpi=120, format=kind)
  except (ValueError, OSError) as error:
    raise errors.InputError(f"--embedding_plot={path}: {error}") from error
  finally:
    pyplot.close(figure)
