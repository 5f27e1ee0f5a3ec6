"""A small trained encoder with heads of every kind, and how Python runs it.

`in_python` is the pipeline that a graph with strings at its input must equal:
tokenization.py, input_sequences.py, padding to the full length, modeling.py.
"""

import pathlib

import numpy as np
import tensorflow as tf

import heads
import modeling
import tokenization
from checkpoints import model_folder, model_writer, weight_files
from common import run_settings
from serving import export_options, models, raw_text
from text import input_sequences

FOLDER = pathlib.Path(__file__).parent / "golden" / "pretraining_run" / "model"
LABELS = ["O", "B-PER", "I-PER"]
LENGTH = 64


def tokenizer():
  return tokenization.FullTokenizer(str(FOLDER / "vocab.txt"))


def config():
  return modeling.BertConfig.from_json_file(str(FOLDER / "bert_config.json"))


def make(head, **options):
  """Returns the raw_text.RawText of a head."""
  full = tokenizer()
  has_labels = head in ("classification", "tagging")
  settings = export_settings_of(
    {
      "max_seq_length": LENGTH,
      "doc_stride": 128 * (head == "span"),
      "vocab_file": full.vocab_file,
      "output_activation": "softmax",
      "head": head,
      "labels": LABELS if has_labels else [],
      **options,
    }
  )
  model = models.KINDS[head](config(), settings, full)
  weight_files.load(
    model.variables, str(FOLDER), allowed_missing=["^output_", "^cls/squad/"]
  )
  # A new head is nearly blind: make it separate its inputs.
  for variable in model.variables:
    if "output_weights" in variable.name:
      variable.assign(tf.random.stateless_normal(variable.shape, [1, 2]))
  return raw_text.RawText(model)


# Functions of (config, encoder) that make the head of a trained model.


def classifier(count):
  return lambda config, _: heads.ClassificationHead(config, count)


def tagger(config, _):
  return heads.TokenClassificationHead(config, len(config.label_names()))


def span(config, _):
  return heads.SpanHead(config)


def pair_scorer(config, _):
  return heads.NextSentenceHead(config)


def mask_filler(config, bert):
  return heads.MaskedLMHead(config, bert.word_embeddings)


def label_names(*labels):
  """Returns the configuration's `id2label`."""
  return {str(number): label for number, label in enumerate(labels)}


def trained(folder, head, *, stored, pooler=True, **task):
  """Writes a model folder as the scripts do; the weights separate the inputs.

  Args:
    folder: pathlib.Path.
    head: function of (config, encoder); returns the head, or None.
    stored: dict, how the input was made.
    pooler: whether the checkpoint has one.
    **task: what else the configuration says.
  """
  # One layer: most of the time goes into tracing graphs.
  values = {**config().to_dict(), "num_hidden_layers": 1, **task}
  shape = modeling.BertConfig.from_dict(values)
  bert = modeling.BertModel(shape)
  weight_files.load(bert.variables, str(FOLDER))
  # A head of random weights is nearly blind.
  variables = (
    list(bert.variables)
    if pooler
    else [v for v in bert.variables if "/pooler/" not in v.name]
  )
  if head:
    module = head(shape, bert)
    for variable in module.variables:
      seed = [1, len(variable.name)]
      variable.assign(tf.random.stateless_normal(variable.shape, seed))
    variables += module.variables
  model_writer.write(
    str(folder),
    variables,
    model_folder.with_input_settings(shape, stored),
    str(FOLDER / "vocab.txt"),
    True,
  )
  return folder


def inputs_in_python(ids_a, ids_b=None, length=LENGTH):
  """Returns {name: int32 [1, length]} for a text or a pair, given as ids."""
  if not ids_b:
    # As in the scripts: without any piece it counts as none.
    ids_a, ids_b = ids_a[: length - 2], None
  else:
    input_sequences.truncate_pair(ids_a, ids_b, length - 3)
  ids, segments = input_sequences.build_inputs(
    ids_a, ids_b, frame=tokenizer().frame
  )
  batch = input_sequences.pad_batch([ids], [segments], length=length)
  return {name: tf.constant(values) for name, values in batch.items()}


def in_python(raw, *texts):
  """Returns the model's `outputs` for one text or pair, padded in full."""
  ids = [tokenizer().encode(text) for text in texts]
  return raw.model.outputs(inputs_in_python(*ids, length=LENGTH))


def softmax(logits):
  return tf.nn.softmax(logits).numpy()


def assert_close(values, expected):
  np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def export_settings_of(given=()):
  """Returns the run_settings.Settings of flags: a dict of those given."""
  given = dict(given)
  return run_settings.Settings({**export_options.DEFAULTS, **given}, given)
