"""The first dimensions of a vector are a vector, too (arXiv 2205.13147).

The loss is the sum of the inner loss over the vectors' first d dimensions,
scaled to length 1, for each d. As in sentence-transformers' MatryoshkaLoss, all
weights are 1.
"""

from collections.abc import Callable

import tensorflow as tf

from classification import data
from common import errors

KINDS = data.OF_VECTORS
COMPARES = False
OPTIONS = {  # type: ignore[var-annotated]
  "matryoshka_dims": (
    [],
    "Numbers of dimensions for --losses=matryoshka; by default all, a half, a "
    "quarter and an eighth.",
  )
}


def make(
  inner: Callable, task_kind: str, matryoshka_dims: list[str]
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
  """Returns a function of vectors [B, W, D] and labels; it returns [B].

  Raises InputError: a dimension is not an integer from 1 on.
  """
  del task_kind
  if not all(text.isdecimal() and int(text) for text in matryoshka_dims):
    raise errors.InputError(
      f"--matryoshka_dims={','.join(matryoshka_dims)}: expected integers from "
      "1 on, such as 384,192,96"
    )

  def losses(vectors: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    width = vectors.shape[-1]
    sizes = [*map(int, matryoshka_dims)] or [width // n for n in (1, 2, 4, 8)]
    if max(sizes) > width:
      raise errors.InputError(
        f"--matryoshka_dims has {max(sizes)}, and a vector {width} dimensions; "
        "leave larger numbers out"
      )
    parts = [tf.math.l2_normalize(vectors[..., :n], -1) for n in sizes]
    return tf.add_n([inner(part, labels) for part in parts])

  return losses
