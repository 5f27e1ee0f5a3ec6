"""Tests of the picture of token vectors."""

import numpy as np
import pytest

from common import errors
from features import embedding_plot

RNG = np.random.RandomState(0)


def test_components_of_points_on_a_line():
  line = np.array([1.0, 2.0, -2.5]) / 11.25**0.5
  points = np.array([0.0, 1.0, 5.0])[:, None] * line + 7
  found, shares = embedding_plot.principal_components(points)
  # The largest entry of the direction, 2.5, gets the positive sign.
  np.testing.assert_allclose(found, [[2, 0], [1, 0], [-3, 0]], atol=1e-12)
  np.testing.assert_allclose(shares, [1, 0], atol=1e-12)


def test_components_keep_distances_in_the_plane():
  plane, _ = np.linalg.qr(RNG.randn(8, 2))
  flat = RNG.randn(10, 2)
  found, shares = embedding_plot.principal_components(flat @ plane.T)
  np.testing.assert_allclose(
    np.linalg.norm(found[:, None] - found, axis=-1),
    np.linalg.norm(flat[:, None] - flat, axis=-1),
    atol=1e-12,
  )
  assert shares[0] > shares[1] and shares.sum() == pytest.approx(1)


def test_a_single_point_is_in_the_middle():
  found, shares = embedding_plot.principal_components(RNG.randn(1, 5))
  np.testing.assert_array_equal(found, [[0, 0]])
  np.testing.assert_array_equal(shares, [0, 0])


def test_a_plot_shows_every_token(tmp_path):
  pytest.importorskip("matplotlib")
  sentences = [
    (["[CLS]", "$x_1$", "[SEP]"], RNG.randn(3, 6)),
    (["[CLS]", "Zürich", "<b>"], RNG.randn(3, 6)),
  ]
  path = tmp_path / "plot.svg"
  embedding_plot.save_plot(str(path), sentences, "Vectors")
  assert [file.name for file in tmp_path.iterdir()] == ["plot.svg"]
  text = path.read_text(encoding="utf-8")
  # matplotlib names what it draws as outlines in comments.
  for shown in ("Vectors", "Zürich", "$x_1$", "[SEP]"):
    assert f"<!-- {shown} -->" in text, shown


def test_all_labels_are_inside_and_a_legend_names_the_texts():
  pyplot = pytest.importorskip("matplotlib.pyplot")
  long = "a-very-long-word-" * 4
  sentences = [([long, "$x_1$"], np.array([[9.0, 0, 0], [0, 1, 0]])),
               (["left", long], np.array([[-9.0, 0, 1], [0, -1, 0]]))]
  figure = embedding_plot.draw(pyplot, sentences, "Vectors")
  figure.canvas.draw()
  frame = figure.axes[0].get_window_extent()
  for label in figure.axes[0].texts:
    box = label.get_window_extent()
    assert np.all(box.min >= frame.min) and np.all(box.max <= frame.max)
  (legend,) = figure.legends
  assert [text.get_text() for text in legend.get_texts()] == [
    rf"{long} \$x_1\$", f"left {long}"
  ]
  pyplot.close(figure)


def test_an_unknown_format_is_named(tmp_path):
  pytest.importorskip("matplotlib")
  with pytest.raises(errors.InputError, match="plot.xyz: .*'xyz'"):
    embedding_plot.save_plot(
      str(tmp_path / "plot.xyz"), [(["a"], RNG.randn(1, 3))], "Vectors"
    )
  assert not list(tmp_path.iterdir())
