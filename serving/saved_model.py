"""A model as a folder that TensorFlow Serving, TF Hub and serve.py can load.

  saved_model.pb, variables/                 graph and weights
  assets/vocab.txt, assets/labels.txt        copies for people to read
  assets.extra/tf_serving_warmup_requests    requests that warm up the server
  assets.extra/answers.json, vocab.txt       settings of serve.py for answers

The signature `serving_default` takes strings, `ids` takes ids. The object
itself has the reusable-SavedModel interface: `__call__(inputs, training)` on a
dict of ids, `make_inputs(texts)` which returns that dict, `variables`,
`trainable_variables` and `regularization_losses`.
"""

import contextlib
import os
import tempfile

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

import tokenization
from common import errors, file_io, lean_tensorflow
from engines import network_file
from records import tfrecord
from serving import answers, exported_network, models, raw_text, rest
from variants import vocabularies

_ANSWERS_FILE = os.path.join("assets.extra", network_file.SETTINGS)
_VOCABULARY = os.path.join("assets.extra", "vocab.txt")
WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")


def write(
  folder: str, raw: raw_text.RawText, *, warmup_texts=(), name: str = "bert"
) -> None:
  """Writes the folder of a model; an error leaves no incomplete folder.

  Raises InputError: the folder exists, or cannot be written.

  Args:
    folder: a new folder. TensorFlow Serving requires a number as its last part.
    raw: the model with its weights.
    warmup_texts: tuples with as many strings as the model takes; each becomes a
      request that TensorFlow Serving runs when it starts.
    name: the model's name in the server, for these requests.
  """
  if tf.io.gfile.exists(folder):
    raise errors.InputError(
      f"{folder} exists; remove it, or export as another --version"
    )
  parent, version = os.path.split(folder.rstrip("/"))
  # A server that watches `parent` ignores names that are not numbers.
  temporary = os.path.join(parent, f"tmp-{version}-{os.getpid()}")
  try:
    _write(temporary, raw)
    if warmup_texts:
      with tfrecord.RecordWriter(os.path.join(temporary, WARMUP_FILE)) as file:
        for texts in warmup_texts:
          file.write(predict_log(dict(zip(raw.model.text_inputs, texts)), name))
    # The rename is atomic, so the server never sees an incomplete model.
    tf.io.gfile.rename(temporary, folder)
  # An interrupt from the keyboard must not leave gigabytes behind.
  except BaseException as error:
    with contextlib.suppress(tf.errors.OpError):  # It may not exist yet.
      tf.io.gfile.rmtree(temporary)
    # The disk is full, or the folder is read-only.
    if isinstance(error, tf.errors.OpError):
      raise errors.InputError(
        f"cannot write {folder}: {error.message}; give another --export_dir"
      ) from error
    raise


def _write(folder, raw):
  """Writes all files except the warm-up requests."""
  settings, labels = raw.model.settings, raw.model.settings.labels
  with tempfile.TemporaryDirectory() as assets:
    lines = {
      "vocab.txt": vocabularies.lines(raw.model.tokenizer),
      "labels.txt": labels,
    }
    paths = {name: os.path.join(assets, name) for name in lines if lines[name]}
    for name, path in paths.items():
      file_io.write_text(path, "".join(f"{line}\n" for line in lines[name]))
    root = _exported(raw)
    root.assets = list(map(tf.saved_model.Asset, paths.values()))
    tf.saved_model.save(root, folder, signatures=_signatures(raw))
  answers.write_settings(
    os.path.join(folder, _ANSWERS_FILE), settings, raw.model.text_inputs
  )
  with file_io.open_for_reading(settings.vocab_file) as stream:
    file_io.write_bytes(os.path.join(folder, _VOCABULARY), stream.read())


def _exported(raw):
  """Returns the object to save, which has the reusable interface."""
  root, model = tf.train.Checkpoint(), raw.model
  root.model = raw
  root.variables = list(model.variables)
  root.trainable_variables = list(model.trainable_variables)
  # The interface requires this list; the model has no such losses.
  root.regularization_losses = []
  root.__call__ = tf.function(model.outputs, autograph=False)
  # The interface requires both values, and loading cannot trace another graph.
  for training in (False, True):
    root.__call__.get_concrete_function(
      dict.fromkeys(models.ServedModel.id_inputs, models.IDS), training
    )
  root.make_inputs = tf.function(
    raw.make_inputs, autograph=False,
    input_signature=[models.TEXTS] * len(model.text_inputs),
  )
  return root


def _signatures(raw):
  model = raw.model

  def text(**texts):
    return raw.from_text(*(texts[name] for name in model.text_inputs))

  def ids(**inputs):
    return model.named(model.from_ids(**raw_text.checked(model, **inputs)))

  return {
    "serving_default": models.compiled(text, models.TEXTS, model.text_inputs),
    "ids": models.compiled(ids, models.IDS, model.id_inputs),
  }


# Loading.


class LoadedModel(exported_network.Servable):
  """A loaded SavedModel that answers texts.

  In an export of this project, `serving_default` answers like the scripts and
  splits long texts into windows. All other signatures, and every signature of
  any other SavedModel, return the outputs of their graph.
  """

  def __init__(self, folder: str, batch_size: int = 32, threads: int = 0):
    """Loads a model.

    Raises InputError: the model is missing or cannot be read.

    Args:
      threads: number of threads that compute; 0 means one per core.
      batch_size: sequences in a batch; batches of short sequences have more.
      folder: a folder with a saved_model.pb; or a folder with versions 1, 2,
        ..., of which the highest is loaded, as in TensorFlow Serving.
    """
    if threads:  # TensorFlow starts its threads when it loads a model.
      tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Graphs of other programs may do without tensorflow_text's operations.
    with contextlib.suppress(errors.InputError):
      lean_tensorflow.import_tensorflow_text()
    self.folder = _newest_version(folder)
    name = os.path.basename(os.path.abspath(self.folder))
    # TensorFlow Serving's status requires a version.
    self.version = int(name) if name.isdecimal() else 1
    try:
      self._model = tf.saved_model.load(file_io.literal_name(self.folder))
    except (tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
      raise errors.InputError(
        f"{self.folder} is no readable SavedModel ({error}); export it again"
      ) from error
    self._signatures = dict(self._model.signatures)
    self._tensors = {
      name: dict(sorted(signature.structured_input_signature[1].items()))
      for name, signature in self._signatures.items()
    }
    self.specs = {
      name: {
        key: rest.InputSpec(np.dtype(t.dtype.as_numpy_dtype), t.shape.rank)
        for key, t in tensors.items()
      }
      for name, tensors in self._tensors.items()
    }
    if tf.io.gfile.exists(os.path.join(self.folder, _ANSWERS_FILE)):
      self._load_answers(batch_size)

  def _load_answers(self, batch_size):
    vocab_file = os.path.join(self.folder, _VOCABULARY)
    settings, self.texts = answers.read_settings(
      os.path.join(self.folder, _ANSWERS_FILE), vocab_file
    )
    self.head = settings.head
    tokenizer = tokenization.FullTokenizer(
      vocab_file, settings.do_lower_case, settings.never_split,
      **settings.text_rules,
    )
    self._answer = answers.make(
      settings, tokenizer,
      models.on_tensors(self._signatures["ids"]), batch_size,
    )

  def graph(self, signature: str, rows: list) -> list:
    """Returns the graph's outputs for each row; see `Servable.run`.

    Raises InputError: the graph refuses the rows.
    """
    tensors = {}
    for name, spec in self._tensors[signature].items():
      dtype = spec.dtype.as_numpy_dtype
      values = np.stack([np.asarray(row[name], dtype) for row in rows])
      tensors[name] = tf.constant(values, spec.dtype)
    try:
      outputs = self._signatures[signature](**tensors)
    except tf.errors.InvalidArgumentError as error:
      raise errors.InputError(
        f"the model cannot take this: {_reason(error)}"
      ) from error
    columns = {name: _listed(outputs[name].numpy()) for name in sorted(outputs)}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]

  def metadata(self) -> dict:
    path = os.path.join(self.folder, "saved_model.pb")
    with tf.io.gfile.GFile(path, "rb") as stream:
      model = saved_model_pb2.SavedModel.FromString(stream.read())
    # The file has the definitions in the form that TensorFlow Serving reads.
    definitions = model.meta_graphs[0].signature_def
    return {
      name: json_format.MessageToDict(
        definitions[name], preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
      )
      for name in sorted(self.specs)
    }


def _reason(error):
  """Returns the line of TensorFlow's message that describes the error."""
  # The remaining lines name nodes of the graph.
  message = error.message.split("\n\t [[")[0]
  reason = message.strip().split("\n")[-1]
  # tf.debugging.Assert writes "assertion failed: [the sentence]".
  return reason.removeprefix("assertion failed: [").removesuffix("]")


def _listed(array):
  """Returns an array as nested lists, with bytes decoded to text."""
  if array.dtype == object:
    decode = np.vectorize(lambda value: value.decode("utf-8", "replace"), "O")
    array = decode(array)
  return array.tolist()


def _newest_version(folder):
  if tf.io.gfile.exists(os.path.join(folder, "saved_model.pb")):
    return folder
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
  versions = filter(str.isdecimal, (name.rstrip("/") for name in names))
  # Versions are compared as numbers: 10 comes after 9.
  newest = max(versions, key=int, default=None)
  if newest is None:
    raise errors.InputError(
      f"no SavedModel in {folder}: neither it nor a folder with a number in it "
      "has a saved_model.pb; give --export_dir of export_saved_model.py"
    )
  return os.path.join(folder, newest)


def predict_log(inputs: dict, name: str) -> bytes:
  """Returns a warm-up request as a serialized tensorflow.serving.PredictionLog.

  This writes the fields by their numbers. Otherwise the project would need
  tensorflow-serving-api, which defines the messages, for this function alone.

  Args:
    inputs: {name of an input: its string, in a batch of one}.
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


def _field(number, value):
  """Returns a field of bytes of a protocol buffer: tag, length, value."""
  # Each byte has seven bits of the length, the lowest bits first; its top bit
  # says whether another byte follows.
  length, rest = b"", len(value)
  while rest > 127:
    length += bytes([rest & 127 | 128])
    rest >>= 7
  # Wire type 2: a length and that many bytes.
  return bytes([number << 3 | 2]) + length + bytes([rest]) + value
