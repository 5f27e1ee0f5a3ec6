"""A model as a folder that TensorFlow Serving, TF Hub and serve.py can load.

  saved_model.pb, variables/                 graph and weights
  assets/vocab.txt, assets/labels.txt        copies for who wants to read them
  assets.extra/tf_serving_warmup_requests    what the server runs when it starts
  assets.extra/answers.json, vocab.txt       how serve.py makes answers

Signatures: `serving_default` takes strings, `ids` takes ids. The object itself
follows the reusable-SavedModel interface: `__call__(inputs, training)` on a
dict of ids, `make_inputs(texts)` which gives that dict, `variables`,
`trainable_variables` and `regularization_losses`.
"""

import contextlib
import functools
import os
import tempfile

import numpy as np
import tensorflow as tf

# For its operations, which a graph that is loaded refers to.
import tensorflow_text  # noqa: F401
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

import tokenization
from common import errors, file_io, json_files, run_settings
from records import tfrecord
from serving import answers, graph_inputs, raw_text, rest

_ANSWERS_FILE = os.path.join("assets.extra", "answers.json")
WARMUP_FILE = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Protocol buffer tags (field number * 8 + 2, "a length and that many bytes")
# of tensorflow.serving: PredictionLog.predict_log, PredictLog.request,
# PredictRequest.model_spec and .inputs, ModelSpec.name and .signature_name,
# key and value of the map of inputs.
_PREDICT_LOG, _REQUEST = b"\x32", b"\x0a"
_MODEL_SPEC, _INPUTS = b"\x0a", b"\x12"
_NAME, _SIGNATURE_NAME, _KEY, _VALUE = b"\x0a", b"\x1a", b"\x0a", b"\x12"


def write(
  folder: str, raw: raw_text.RawText, *, warmup_texts=(), name: str = "bert"
) -> None:
  """Writes a folder, whole or not at all.

  Args:
    folder: must not exist. TensorFlow Serving wants a number as last part.
    raw: the model with its weights.
    warmup_texts: strings, or tuples of strings where the model takes two
      texts; each becomes a request that TensorFlow Serving runs at its start.
    name: the name that the server knows the model by, for these requests.

  Raises:
    InputError: the folder exists, or cannot be written.
  """
  if tf.io.gfile.exists(folder):
    raise errors.InputError(
      f"{folder} exists; remove it, or export as another --version"
    )
  folder = folder.rstrip("/")
  parent, version = os.path.split(folder)
  # Not a number: a server that watches the folder must not see it yet.
  temporary = os.path.join(parent, f"tmp-{version}-{os.getpid()}")
  try:
    with _assets(raw) as assets:
      root = _exported(raw, assets)
      tf.saved_model.save(root, temporary, signatures=_signatures(raw))
    _write_answers(temporary, raw)
    if warmup_texts:
      warmup = os.path.join(temporary, WARMUP_FILE)
      _write_warmup(warmup, raw.model, warmup_texts, name)
    # One step: who watches the folder sees a whole model or none.
    tf.io.gfile.rename(temporary, folder)
  # An interrupt from the keyboard must not leave gigabytes behind.
  except BaseException as error:
    with contextlib.suppress(tf.errors.OpError):  # There may be none yet.
      tf.io.gfile.rmtree(temporary)
    # A full disk, a folder that cannot be written to.
    if isinstance(error, tf.errors.OpError):
      raise errors.InputError(
        f"cannot write {folder}: {error.message}; make room, or give another "
        "--export_dir"
      ) from error
    raise


@contextlib.contextmanager
def _assets(raw):
  """Gives a list of tf.saved_model.Asset, of files that exist for so long."""
  with tempfile.TemporaryDirectory() as folder:
    lines = {"vocab.txt": raw.lines}
    if raw.model.settings.head in ("classification", "tagging"):
      lines["labels.txt"] = raw.model.labels
    assets = []
    for name, values in lines.items():
      if values:
        path = os.path.join(folder, name)
        file_io.write_text(path, "".join(f"{line}\n" for line in values))
        assets.append(tf.saved_model.Asset(path))
    yield assets


def _write_answers(folder, raw):
  """Writes what `LoadedModel` makes answers with."""
  settings = raw.model.settings
  values = {name: settings.get(name) for name in _SETTINGS}
  labels = [] if values["head"] == "masked_lm" else raw.model.labels
  path = os.path.join(folder, _ANSWERS_FILE)
  json_files.write(path, {
    "settings": values, "labels": labels, "text_inputs": raw.model.text_inputs
  })
  with file_io.open_for_reading(settings.vocab_file) as stream:
    file_io.write_bytes(
      os.path.join(os.path.dirname(path), _VOCABULARY), stream.read()
    )


_VOCABULARY = "vocab.txt"
_SETTINGS = (
  "head", "do_lower_case", "max_seq_length", "output_activation", "doc_stride",
  "max_windows", "max_query_length", "max_answer_length",
  "n_best_size", "version_2_with_negative", "null_score_diff_threshold",
  "tag_words",
)


def _exported(raw, assets):
  """Returns the object that is saved, with the reusable interface."""
  root, model = tf.train.Checkpoint(), raw.model
  root.model = raw
  root.assets = assets
  root.variables = list(model.variables)
  root.trainable_variables = list(model.trainable_variables)
  # The interface asks for a list of losses; there are none.
  root.regularization_losses = []
  call = tf.function(model.outputs, autograph=False)
  # The interface asks for both; a graph is fixed once it is saved.
  for training in (False, True):
    call.get_concrete_function(
      {name: _IDS for name in _ENCODER_INPUTS}, training
    )
  root.__call__ = call
  root.make_inputs = tf.function(
    raw.make_inputs,
    input_signature=[_TEXTS] * len(model.text_inputs),
    autograph=False,
  )
  return root


_TEXTS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)
_ENCODER_INPUTS = ("input_ids", "input_mask", "segment_ids")


def _signatures(raw):
  model = raw.model

  @functools.partial(tf.function, autograph=False)
  def text(**texts):
    return raw.from_text(*(texts[name] for name in model.text_inputs))

  @functools.partial(tf.function, autograph=False)
  def ids(**inputs):
    return model.from_ids(**graph_inputs.checked(model.config, **inputs))

  return {
    "serving_default": text.get_concrete_function(
      # The name in the spec becomes the input's name in the signature.
      **{n: tf.TensorSpec([None], tf.string, n) for n in model.text_inputs}
    ),
    "ids": ids.get_concrete_function(
      **{n: tf.TensorSpec([None, None], tf.int32, n) for n in model.id_inputs}
    ),
  }


# Reading one again.


class LoadedModel:
  """A SavedModel, and the answers to texts that are made with it.

  Of an export of this project `serving_default` answers as the scripts do, long
  texts in windows; of any other SavedModel, as all signatures: what its graph
  gives.

  Attributes:
    folder: where it is.
    version: its number, 1 if the folder's name is none.
    specs: {signature: {input: tf.TensorSpec}}.
  """

  def __init__(self, folder: str, batch_size: int = 32):
    """Loads a model.

    Args:
      batch_size: sequences that are computed together; of short ones more.
      folder: one with a saved_model.pb, or with folders 1, 2, ... that have
        one: then the highest is taken, as TensorFlow Serving does.

    Raises:
      InputError: there is none, or it cannot be read.
    """
    self.folder = _newest_version(folder)
    name = os.path.basename(os.path.abspath(self.folder))
    # TensorFlow Serving's states name a version, so there must be one.
    self.version = int(name) if name.isdecimal() else 1
    try:
      self._model = tf.saved_model.load(file_io.literal_name(self.folder))
    except (tf.errors.OpError, OSError, RuntimeError, ValueError) as error:
      raise errors.InputError(
        f"{self.folder} is not a SavedModel that can be loaded ({error}); "
        "export it again"
      ) from error
    self._signatures = dict(self._model.signatures)
    self.specs = {
      name: {
        key: spec
        for key, spec in sorted(signature.structured_input_signature[1].items())
      }
      for name, signature in self._signatures.items()
    }

    self._head, self._texts, self._answer = None, (), None
    if tf.io.gfile.exists(os.path.join(self.folder, _ANSWERS_FILE)):
      self._load_answers(batch_size)

  def _load_answers(self, batch_size):
    path = os.path.join(self.folder, _ANSWERS_FILE)
    values = json_files.read(path)
    read = functools.partial(json_files.field, values, source=path)
    vocab_file = os.path.join(os.path.dirname(path), _VOCABULARY)
    settings = run_settings.Settings(
      {**read("settings", dict), "vocab_file": vocab_file}
    )
    self._head = settings.head
    self._texts = read("text_inputs", list[str])
    self._answer = answers.make(answers.Parts(
      settings=settings,
      tokenizer=tokenization.FullTokenizer(vocab_file, settings.do_lower_case),
      labels=read("labels", list[str]),
      network=self._signatures["ids"],
      batch_size=batch_size,
    ))

  def check(self, signature: str, rows: list) -> None:
    """Raises InputError for rows, as of `run`, with an empty text."""
    if self._answer and signature == "serving_default":
      answers.check(self._head, self._texts_of(rows))

  def _texts_of(self, rows):
    return [
      tuple(row[name].decode("utf-8", "ignore") for name in self._texts)
      for row in rows
    ]

  def run(self, signature: str, rows: list) -> list:
    """Returns the answer to each row: {output: what JSON can hold}.

    Args:
      signature: one of `specs`.
      rows: list of {input: bytes, or array}, of one shape each.
    """
    if self._answer and signature == "serving_default":
      return self._answer(self._texts_of(rows))
    return self.graph(signature, rows)

  def graph(self, signature: str, rows: list) -> list:
    """Returns what a signature's graph gives, as `run` does."""
    tensors = {}
    for name, spec in self.specs[signature].items():
      kind = spec.dtype.as_numpy_dtype
      values = np.stack([np.asarray(row[name], kind) for row in rows])
      tensors[name] = tf.constant(values, spec.dtype)
    outputs = self._signatures[signature](**tensors)
    columns = {n: rest.listed(outputs[n].numpy()) for n in sorted(outputs)}
    return [dict(zip(columns, row)) for row in zip(*columns.values())]

  def metadata(self) -> dict:
    """Returns {signature: dict}, as TensorFlow Serving describes them."""
    path = os.path.join(self.folder, "saved_model.pb")
    with tf.io.gfile.GFile(path, "rb") as stream:
      model = saved_model_pb2.SavedModel.FromString(stream.read())
    # From the file, where they are as TensorFlow Serving reads them.
    definitions = model.meta_graphs[0].signature_def
    return {
      name: json_format.MessageToDict(
        definitions[name],
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
      )
      for name in sorted(self.specs)
    }


def _newest_version(folder):
  if tf.io.gfile.exists(os.path.join(folder, "saved_model.pb")):
    return folder
  names = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
  versions = [name.rstrip("/") for name in names]
  # As numbers: 10 comes after 9.
  versions = sorted(filter(str.isdecimal, versions), key=int)
  if not versions:
    raise errors.InputError(
      f"no SavedModel in {folder}: it has neither a saved_model.pb nor a "
      "folder with a number that has one; give --export_dir of "
      "export_saved_model.py"
    )
  return os.path.join(folder, versions[-1])


# Warm-up requests. Their messages belong to the package tensorflow-serving-api,
# which nothing else here needs; so they are put together from their fields.


def _write_warmup(path, model, texts, name):
  tf.io.gfile.makedirs(os.path.dirname(path))
  with tfrecord.RecordWriter(path) as writer:
    for text in texts:
      values = (text,) if isinstance(text, str) else text
      writer.write(
        predict_log(dict(zip(model.text_inputs, values)), name)
      )


def predict_log(
  inputs: dict, name: str, signature: str = "serving_default"
) -> bytes:
  """Returns a tensorflow.serving.PredictionLog.

  Args:
    inputs: name of an input -> a string, a batch of one.
    name: of the model.
    signature: of the model's signatures.
  """
  spec = _field(_NAME, name.encode()) + _field(
    _SIGNATURE_NAME, signature.encode()
  )
  request = _field(_MODEL_SPEC, spec)
  for key, text in inputs.items():
    value = tf.make_tensor_proto([text], tf.string).SerializeToString()
    request += _field(
      _INPUTS, _field(_KEY, key.encode()) + _field(_VALUE, value)
    )
  return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(tag, value):
  """Returns a field of bytes: tag, length as a varint, value."""
  # Seven bits a byte, the lowest first; the top bit says that more follow.
  length, rest = b"", len(value)
  while rest > 127:
    length += bytes([rest & 127 | 128])
    rest >>= 7
  return tag + length + bytes([rest]) + value
