"""Writes and loads a SavedModel for TensorFlow Serving, TF Hub and serve.py.

  saved_model.pb, variables/                 graph and weights
  assets.extra/tf_serving_warmup_requests    requests that warm up the server
  assets.extra/answers.json, vocab.txt       settings, labels and vocabulary
  assets.extra/tokenizer_config.json         the vocabulary's rules

The signature `serving_default` takes strings, `ids` takes ids. The loaded
object has TensorFlow's reusable-SavedModel interface: `__call__(inputs,
training)` takes a dict of ids, and there are `variables`, `trainable_variables`
and `regularization_losses`. `make_inputs(texts)` returns the dict of ids.
"""

import contextlib
import os
from collections.abc import Callable, Sequence

import tensorflow as tf

import tokenization
from answering import answers, models
from checkpoints import sentence_prompts
from common import errors, file_io, json_files, lean_tensorflow
from engines import network_file
from exports import raw_text
from records import tfrecord
from variants import vocabulary_files

_ANSWERS_FILE = os.path.join("assets.extra", network_file.SETTINGS)
_VOCABULARY = os.path.join("assets.extra", "vocab.txt")
WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")


def write(
  folder: str,
  raw: raw_text.RawText,
  *,
  warmup_texts: Sequence[tuple] = (),
  name: str = "bert",
) -> None:
  """Writes the folder of a model; an error leaves no incomplete folder.

  Raises InputError: the folder exists, or cannot be written.

  Args:
    folder: a new folder. TensorFlow Serving requires a number as its name.
    raw: the model with its weights.
    warmup_texts: tuples with as many strings as the model takes; each becomes a
      request that TensorFlow Serving runs when it starts.
    name: the model's name in the server, for the warm-up requests.
  """
  if tf.io.gfile.exists(folder):
    raise errors.InputError(
      f"{folder} exists; remove it, or export as another --version"
    )
  # A server that watches the parent ignores names that are not numbers.
  temporary = file_io.temporary_path(folder.rstrip("/"))
  try:
    _write(temporary, raw)
    if warmup_texts:
      with tfrecord.RecordWriter(os.path.join(temporary, WARMUP_FILE)) as file:
        for texts in warmup_texts:
          file.write(predict_log(dict(zip(raw.model.text_inputs, texts)), name))
    # The rename is atomic, so the server never sees an incomplete model.
    tf.io.gfile.rename(temporary, folder)
  # Even a keyboard interrupt must not leave gigabytes behind.
  except BaseException as error:
    with contextlib.suppress(tf.errors.OpError):  # It may not exist yet.
      tf.io.gfile.rmtree(temporary)
    # For example, the disk is full or the folder is read-only.
    if isinstance(error, tf.errors.OpError):
      raise errors.InputError(
        f"cannot write {folder}: {error.message}; give another --export_dir"
      ) from error
    raise


def _write(folder: str, raw: raw_text.RawText) -> None:
  """Writes all files except the warm-up requests."""
  settings = raw.model.settings
  tf.saved_model.save(_exported(raw), folder, signatures=_signatures(raw))
  answers_file = os.path.join(folder, _ANSWERS_FILE)
  answers.write_settings(
    answers_file, settings, raw.model.text_inputs, raw.model.prompts
  )
  # A reader that knows only the path of the vocabulary finds its rules.
  rules = vocabulary_files.VocabularyFiles(settings.vocab_file).text_rules
  config = os.path.join(
    folder, os.path.dirname(_VOCABULARY), vocabulary_files.CONFIG
  )
  json_files.write(config, rules)
  with file_io.open_for_reading(settings.vocab_file) as stream:
    file_io.write_bytes(os.path.join(folder, _VOCABULARY), stream.read())


def _exported(raw: raw_text.RawText) -> tf.train.Checkpoint:
  """Returns the object to save, with the reusable-SavedModel interface."""
  root, model = tf.train.Checkpoint(), raw.model
  root.model = raw
  root.variables = list(model.variables)
  root.trainable_variables = list(model.trainable_variables)
  # The interface requires this list; the model has no such losses.
  root.regularization_losses = []
  root.__call__ = tf.function(model.outputs, autograph=False)
  # The interface requires both modes, and a loaded model cannot trace graphs.
  for training in (False, True):
    root.__call__.get_concrete_function(
      dict.fromkeys(models.ServedModel.id_inputs, models.IDS), training
    )
  signature = [models.TEXTS] * len(model.text_inputs)
  root.make_inputs = tf.function(
    raw.make_inputs, autograph=False, input_signature=signature
  )
  return root


def _signatures(raw: raw_text.RawText) -> dict[str, Callable]:
  model = raw.model

  def text(**texts: tf.Tensor) -> dict:
    return raw.from_text(*(texts[name] for name in model.text_inputs))

  def ids(**inputs: tf.Tensor) -> dict:
    return model.named(model.from_ids(**raw_text.checked(model, **inputs)))

  texts = raw_text.of_any_batch(text, raw.filler)
  return {
    "serving_default": models.compiled(texts, models.TEXTS, model.text_inputs),
    "ids": models.compiled(
      raw_text.of_any_batch(ids), models.IDS, model.id_inputs
    ),
  }


# Loading.


def load(folder: str, batch_size: int = 32, threads: int = 0) -> answers.Served:
  """Loads an export; its answers equal the answers of the scripts.

  It splits long contexts into windows; TensorFlow Serving truncates contexts.

  Args:
    folder: a folder with a saved_model.pb; or a folder with versions 1, 2,
      ..., of which the highest is loaded, as in TensorFlow Serving.
    batch_size: sequences in a batch; batches of short sequences have more.
    threads: number of threads that compute; 0 means one per core.

  Raises InputError: the model is missing, cannot be read, or is not an export
  of this project.
  """
  models.use_threads(threads)
  lean_tensorflow.import_tensorflow_text()
  folder = _newest_version(folder)
  answers_file = os.path.join(folder, _ANSWERS_FILE)
  if not tf.io.gfile.exists(answers_file):
    raise errors.InputError(
      f"{folder} is a SavedModel without {_ANSWERS_FILE}; serve.py serves only "
      "exports of export_saved_model.py (TensorFlow Serving serves others too)"
    )
  vocab_file = os.path.join(folder, _VOCABULARY)
  settings, texts = answers.read_settings(answers_file, vocab_file)
  options = settings.pick("do_lower_case never_split")
  tokenizer = tokenization.FullTokenizer(
    vocab_file, **options, **settings.text_rules
  )
  try:
    model = tf.saved_model.load(file_io.literal_name(folder))
  except (tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
    raise errors.InputError(
      f"{folder} is not a readable SavedModel ({error}); export it again"
    ) from error

  def ids(**batch: tf.Tensor) -> dict:
    # A signature does not keep its variables alive, so refer to `model` here.
    return model.signatures["ids"](**batch)

  name = os.path.basename(os.path.abspath(folder))
  # TensorFlow Serving's status requires a version.
  version = int(name) if name.isdecimal() else 1
  network = models.on_tensors(ids)
  prompts = sentence_prompts.read(os.path.dirname(answers_file))
  return answers.Served(
    folder, settings, texts, tokenizer, network, batch_size, version, prompts
  )


def _newest_version(folder: str) -> str:
  if tf.io.gfile.exists(os.path.join(folder, "saved_model.pb")):
    return folder
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
  versions = filter(str.isdecimal, (name.rstrip("/") for name in names))
  # Versions are compared as numbers: 10 comes after 9.
  newest = max(versions, key=int, default=None)
  if newest is None:
    raise errors.InputError(
      f"no SavedModel in {folder}: it has no saved_model.pb, and no numbered "
      "subfolder; pass the --export_dir of export_saved_model.py"
    )
  return os.path.join(folder, newest)


def predict_log(inputs: dict, name: str) -> bytes:
  """Returns a warm-up request as a serialized tensorflow.serving.PredictionLog.

  It encodes fields by number, because tensorflow-serving-api, which defines the
  messages, would be a dependency for this function alone.

  Args:
    inputs: {name of an input: its string}, for a batch of one.
    name: the model's name.
  """
  # ModelSpec.name and .signature_name.
  spec = _field(1, name.encode()) + _field(3, b"serving_default")
  # PredictRequest.model_spec and .inputs, which is a map.
  request = _field(1, spec)
  for key, text in inputs.items():
    value = tf.make_tensor_proto([text], tf.string).SerializeToString()
    request += _field(2, _field(1, key.encode()) + _field(2, value))
  # PredictionLog.predict_log and PredictLog.request.
  return _field(6, _field(1, request))


def _field(number: int, value: bytes) -> bytes:
  """Encodes a bytes field of a protocol buffer: tag, length, value."""
  # Each byte contains seven bits of the length, beginning with the lowest. Its
  # top bit says whether another byte follows.
  length, rest = b"", len(value)
  while rest > 127:
    length += bytes([rest & 127 | 128])
    rest >>= 7
  # Wire type 2 is a length, followed by that many bytes.
  return bytes([number << 3 | 2]) + length + bytes([rest]) + value
