"""Writes a network for LiteRT, on phones, in browsers and on servers.

LiteRT plans its memory for fixed shapes. So the file has one signature for each
sequence length, such as "length_16" for one text of 16 tokens; all share one
set of weights. Names are as in onnx_graph.py; inputs are int32 [1, T].
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from common import errors, file_io
from engines import network_file

# A file has one set of weights, but before TensorFlow joins them it writes one
# for each signature, which fails above this size.
_MOST_BYTES = 2**31 - 2**24


def parse_lengths(values: Sequence[str | int], most: int) -> list[int]:
  """Returns the sequence lengths in --lengths as integers.

  Args:
    most: number of the model's positions.

  Raises:
    InputError: the values are not ascending whole numbers, or the model has
      fewer positions.
  """
  flag = f"--lengths={','.join(map(str, values))}"
  lengths = [int(v) if str(v).isdecimal() else 0 for v in values]
  if lengths != sorted(set(lengths)) or lengths[0] < 1:
    raise errors.InputError(
      f"{flag}: expected whole numbers, each larger than the one before it, "
      "such as 16,32,64,128"
    )
  if lengths[-1] > most:
    raise errors.InputError(
      f"{flag}: the model has {most} positions (max_position_embeddings); pass "
      "no larger number"
    )
  return lengths


def check_size(
  lengths: Sequence[int], variables: Iterable[tf.Variable]
) -> None:
  """Raises InputError if the weights are too large for the signatures."""
  size = sum(variable.shape.num_elements() * 4 for variable in variables)
  if size * len(lengths) > _MOST_BYTES:
    raise errors.InputError(
      f"{len(lengths)} --lengths of {size / 1e9:.1f} GB weights each are more "
      f"than TensorFlow converts ({_MOST_BYTES / 1e9:.1f} GB); pass at most "
      f"{_MOST_BYTES // size}, or take --format=onnx"
    )


def write(
  path: str,
  model: tf.Module,
  compute: Callable[..., dict],
  inputs: Sequence[str],
  lengths: Sequence[int],
  *,
  is_int8: bool = False,
) -> None:
  """Writes the file.

  Args:
    model: the module with the variables that `compute` reads.
    compute: function of int32 [1, T], named as in `inputs`, that returns {name:
      float32 tensor}.
    is_int8: whether matrices have 8 bits; hidden states are quantized as they
      are computed (dynamic range quantization).
  """
  signatures = {}
  for length in lengths:
    shape = [1, length]
    specs = {name: tf.TensorSpec(shape, tf.int32, name) for name in inputs}
    signatures[network_file.signature_name(length)] = tf.function(
      lambda **batch: compute(**batch), autograph=False
    ).get_concrete_function(**specs)
  # A folder next to `path` could fail: TensorFlow reads its name as a pattern.
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(model, folder, signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(
      folder, signature_keys=list(signatures)
    )
    # Otherwise the file has the word table twice: unchanged, and multiplied by
    # the gamma of the layer norm before the masked-LM logits.
    converter._experimental_disable_fuse_mul_and_fc = True
    converter.optimizations = [tf.lite.Optimize.DEFAULT] * is_int8
    file_io.write_bytes(path, converter.convert())
