"""A small trained encoder with every head, and its outputs in Python.

A graph with strings as inputs must give the outputs of `in_python`, which runs
tokenization.py, input_sequences.py, padding to the full length and modeling.py.
"""

import pathlib

import numpy as np
import tensorflow as tf

import heads
import modeling
import tokenization
from answering import export_options, models
from checkpoints import model_folder, model_writer, weight_files
from common import run_settings
from exports import raw_text
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
  full_tokenizer = tokenizer()
  has_labels = head in ("classification", "tagging")
  settings = export_settings_of(
    {
      "max_seq_length": LENGTH,
      "doc_stride": 128 * (head == "span"),
      "vocab_file": full_tokenizer.vocab_file,
      "output_activation": "softmax",
      "head": head,
      "labels": LABELS if has_labels else [],
      **options,
    }
  )
  model = models.KINDS[head](config(), settings, full_tokenizer)
  weight_files.load(
    model.variables, str(FOLDER), allowed_missing=["^output_", "^cls/squad/"]
  )
  # Outputs of a new head hardly vary with inputs: use larger weights.
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
  """Writes a model folder as scripts do. The model's outputs vary with inputs.

  Args:
    folder: pathlib.Path.
    head: function of (config, encoder); returns the head, or None.
    stored: dict of the input settings to store.
    pooler: whether to store the pooler's weights.
    **task: further entries of the configuration.
  """
  # One layer: most of the time goes into tracing graphs.
  values = {**config().to_dict(), "num_hidden_layers": 1, **task}
  model_config = modeling.BertConfig.from_dict(values)
  bert = modeling.BertModel(model_config)
  weight_files.load(bert.variables, str(FOLDER))
  variables = (
    list(bert.variables)
    if pooler
    else [v for v in bert.variables if "/pooler/" not in v.name]
  )
  if head:
    # Outputs of a new head hardly vary with inputs.
    module = head(model_config, bert)
    for variable in module.variables:
      seed = [1, len(variable.name)]
      variable.assign(tf.random.stateless_normal(variable.shape, seed))
    variables += module.variables
  model_writer.write(
    str(folder),
    variables,
    model_folder.with_input_settings(model_config, stored),
    str(FOLDER / "vocab.txt"),
    True,
  )
  return folder


def inputs_in_python(ids_a, ids_b=None, length=LENGTH):
  """Returns {name: int32 [1, length]} for a text or a pair, given as ids."""
  if not ids_b:
    # As in the scripts: an empty second text counts as no second text.
    ids_a, ids_b = ids_a[: length - 2], None
  else:
    input_sequences.truncate_pair(ids_a, ids_b, length - 3, odd_to_longer=False)
  ids, segments = input_sequences.build_inputs(
    ids_a, ids_b, frame=tokenizer().frame
  )
  batch = input_sequences.pad_batch([ids], [segments], length=length)
  return {name: tf.constant(values) for name, values in batch.items()}


def in_python(raw, *texts):
  """Returns the model's outputs for one text or pair, padded to LENGTH."""
  ids = [tokenizer().encode(text) for text in texts]
  return raw.model.outputs(inputs_in_python(*ids, length=LENGTH))


def softmax(logits):
  return tf.nn.softmax(logits).numpy()


def assert_close(values, expected):
  np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def export_settings_of(flags=()):
  """Returns run_settings.Settings of `flags`, a dict, and the defaults."""
  flags = dict(flags)
  return run_settings.Settings({**export_options.DEFAULTS, **flags}, flags)
