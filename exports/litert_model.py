"""Writes a network for LiteRT, a runtime for phones, browsers and servers.

LiteRT allocates memory for fixed shapes. So the file has one signature for each
sequence length, such as "length_16" for one text of 16 tokens. All signatures
share one set of weights. Inputs are int32 [1, T]; for names see onnx_graph.py.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from common import errors, file_io
from engines import network_file

# The file has one set of weights. But TensorFlow first writes a copy for each
# signature, and fails if the copies together exceed this size.
_MAX_BYTES = 2**31 - 2**24


def parse_lengths(values: Sequence[str | int], num_positions: int) -> list[int]:
  """Returns the sequence lengths in --lengths as integers.

  Args:
    num_positions: the model's max_position_embeddings.

  Raises:
    InputError: the values are not ascending positive integers, or the last one
      exceeds `num_positions`.
  """
  flag = f"--lengths={','.join(map(str, values))}"
  lengths = [int(v) if str(v).isdecimal() else 0 for v in values]
  if lengths != sorted(set(lengths)) or lengths[0] < 1:
    raise errors.InputError(
      f"{flag}: expected positive integers in ascending order, such as "
      "16,32,64,128"
    )
  if lengths[-1] > num_positions:
    raise errors.InputError(
      f"{flag}: the model has only {num_positions} positions "
      "(max_position_embeddings); pass no larger length"
    )
  return lengths


def check_size(
  lengths: Sequence[int], variables: Iterable[tf.Variable]
) -> None:
  """Raises InputError if TensorFlow's copies of the weights are too large."""
  size = sum(variable.shape.num_elements() * 4 for variable in variables)
  if size * len(lengths) > _MAX_BYTES:
    raise errors.InputError(
      f"TensorFlow converts at most {_MAX_BYTES / 1e9:.1f} GB, but each of the "
      f"{len(lengths)} --lengths needs {size / 1e9:.1f} GB of weights; pass "
      + f"at most {_MAX_BYTES // size} of them, or " * (size <= _MAX_BYTES)
      + "--format=onnx"
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
  """Writes the .tflite file.

  Args:
    model: the module with the variables that `compute` uses.
    compute: function of the keyword arguments `inputs`, int32 [1, T], that
      returns {name: float32 tensor}.
    is_int8: whether to store matrices in 8 bits, and to quantize hidden states
      as they are computed (dynamic range quantization).
  """
  signatures = {}
  for length in lengths:
    shape = [1, length]
    specs = {name: tf.TensorSpec(shape, tf.int32, name) for name in inputs}
    signatures[network_file.signature_name(length)] = tf.function(
      lambda **batch: compute(**batch), autograph=False
    ).get_concrete_function(**specs)
  # TensorFlow would interpret a "[" in the folder of `path` as a glob pattern.
  with tempfile.TemporaryDirectory() as folder:
    tf.saved_model.save(model, folder, signatures)
    converter = tf.lite.TFLiteConverter.from_saved_model(
      folder, signature_keys=list(signatures)
    )
    # Without this, the file would have a second word embedding table: one that
    # is multiplied by gamma of the layer norm before the masked-LM logits.
    converter._experimental_disable_fuse_mul_and_fc = True
    converter.optimizations = [tf.lite.Optimize.DEFAULT] * is_int8
    file_io.write_bytes(path, converter.convert())
