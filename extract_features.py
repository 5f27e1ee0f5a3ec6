r"""Writes BERT's vectors: of every token, or one for each line of text.

  python extract_features.py --input_file=lines.txt --output_file=out.jsonl \
      --vocab_file=vocab.txt --bert_config_file=bert_config.json \
      --init_checkpoint=bert_model.ckpt --layers=-1,-2

A line is one text or two, "text one ||| text two". With --pooling there is
one vector for the line, and with --similarity the cosine of its two texts:

  python extract_features.py --similarity --pooling=mean \
      --input_file=pairs.txt --output_file=cosines.jsonl \
      --vocab_file=vocab.txt --bert_config_file=bert_config.json \
      --init_checkpoint=bert_model.ckpt
"""

from absl import flags

from common import choices, command
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "input_file", None, "Lines of text: one text, or two as 'a ||| b'.",
  required=True,
)
flags.DEFINE_string("output_file", None, "The file to write.")
flags.DEFINE_enum(
  "output_format", "jsonl", choices.FEATURE_FILE_FORMATS,
  "jsonl: as the original. npz: for numpy. parquet: needs pyarrow.",
)
flags.DEFINE_list(
  "layers", ["-1", "-2", "-3", "-4"],
  "Encoder layers whose token vectors are written: 0 is the lowest, -1 the "
  "last.",
)
flags.DEFINE_enum(
  "pooling", None, choices.SENTENCE_POOLINGS,
  "Writes one vector for each line, made of those of its tokens, instead of "
  "--layers.",
)
flags.DEFINE_bool(
  "similarity", False,
  "Writes the cosine between the vectors (see --pooling) of the two texts of "
  "each line.",
)
flags.DEFINE_integer(
  "batch_size", 32, "Texts in one batch.", lower_bound=1
)
flags.DEFINE_bool(
  "use_one_hot_embeddings", False,
  "Looks words up by a matrix product, as is always done on a TPU.",
)
flags.DEFINE_string(
  "attention_html", None,
  "Writes a page for the browser: the attention of every layer and head in "
  "--picture_lines.",
)
flags.DEFINE_string(
  "embedding_plot", None,
  "Draws the token vectors (first of --layers) of --picture_lines as points, "
  "in a .png, .svg or .pdf file; needs matplotlib.",
)
flags.DEFINE_list(
  "picture_lines", ["0"], "Lines of --input_file in the pictures, from 0."
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import functools
import os

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import weight_files
from common import errors, file_io, progress
from features import (
  attention_page,
  embedding_plot,
  feature_files,
  sentence_vectors,
  text_batches,
)
from training import distribution, setup

# Tokens whose vectors are held in memory at a time: 200 MB for four layers of
# BERT-base.
_WINDOW_TOKENS = 1 << 14


def layer_indexes(texts, num_hidden_layers):
  """Returns --layers as a list of integers.

  Raises:
    InputError: no number, or not a layer of the model.
  """
  indexes = []
  for text in texts:
    is_number = text.strip().removeprefix("-").isdecimal()
    if not is_number or not (
      -num_hidden_layers <= int(text) < num_hidden_layers
    ):
      raise errors.InputError(
        f"--layers={','.join(texts)}: {text!r} is no layer of this model, "
        f"which has {num_hidden_layers}; pass numbers from "
        f"-{num_hidden_layers} to {num_hidden_layers - 1}"
      )
    indexes.append(int(text))
  return indexes


def token_vectors(model, layers):
  """Returns a function of a batch that gives float32 [B, L, T, H]."""

  def compute(input_ids, input_mask, segment_ids):
    states = model(input_ids, input_mask, segment_ids).all_encoder_layers
    chosen = [tf.cast(states[layer], tf.float32) for layer in layers]
    return tf.stack(chosen, axis=1)

  return compute


def text_vectors(model, pooling):
  """Returns a function of a batch that gives float32 [B, D]."""

  def compute(input_ids, input_mask, segment_ids):
    positions = None
    if pooling in sentence_vectors.FROM_FIRST_TOKEN:
      positions = modeling.first_positions(input_ids)
    output = model(input_ids, input_mask, segment_ids, positions=positions)
    return sentence_vectors.pool(pooling, output, input_mask)

  return compute


def make_batch_function(compute, strategy, *, batch_size, static_length, jit):
  """Returns a function of a list of Examples that gives an array, a row each.

  Args:
    compute: function of input_ids, input_mask and segment_ids [B, T].
    strategy: the strategy in whose scope the model was made.
    batch_size: B, at most.
    static_length: T of every batch, where a compiler would compile each shape
      anew; None for the longest of the batch.
    jit: whether XLA compiles.
  """
  replicas = strategy.num_replicas_in_sync
  compute = tf.function(compute, jit_compile=jit or None)

  def replica_step(*batch):
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    share = tf.shape(batch[0])[0] // replicas
    start = replica * share
    return compute(*(values[start : start + share] for values in batch))

  @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3)
  def step(input_ids, input_mask, segment_ids):
    values = strategy.run(
      replica_step, args=(input_ids, input_mask, segment_ids)
    )
    return strategy.gather(values, axis=0)

  def run(examples):
    longest = max(len(example.input_ids) for example in examples)
    rows = batch_size if static_length else len(examples)
    # Each replica gets as many rows as the others.
    rows += -rows % replicas
    batch = text_batches.padded(
      examples, rows=rows, length=static_length or longest
    )
    return step(**batch).numpy()[: len(examples)]

  return run


def computed(run, examples, *, batch_size, group=1):
  """Yields lists of (Example, its values), window after window, in order."""
  for window in text_batches.windows(examples, _WINDOW_TOKENS, group=group):
    values = [None] * len(window)
    for places in text_batches.batches_by_length(window, batch_size):
      for place, row in zip(places, run([window[i] for i in places])):
        values[place] = row
    yield list(zip(window, values))


def token_rows(results, tokenizer):
  """Returns feature_files.TokenRows of a window's (Example, values)."""
  return [
    feature_files.TokenRow(
      index=example.index,
      tokens=tokenizer.convert_ids_to_tokens(example.input_ids),
      input_ids=example.input_ids,
      values=values[:, : len(example.input_ids)],
    )
    for example, values in results
  ]


def vector_rows(results):
  """Returns feature_files.VectorRows of a window's (Example, vector)."""
  return [
    feature_files.VectorRow(example.index, vector)
    for example, vector in results
  ]


def similarity_rows(results):
  """Returns feature_files.SimilarityRows; two results make a pair."""
  vectors = [vector for _, vector in results]
  similarities = sentence_vectors.cosines(vectors[::2], vectors[1::2])
  return [
    feature_files.SimilarityRow(example.index, similarity)
    for (example, _), similarity in zip(results[::2], similarities)
  ]


def write_rows(lists_of_rows, write, num_lines):
  """Writes rows as they come, telling how far it is."""
  bar = progress.Progress(
    num_lines, parts=num_lines, part_name="lines", unit="lines"
  )
  for rows in lists_of_rows:
    write(rows)
    for _ in rows:
      bar.advance(1, 1)


def count_lines(path):
  """Returns how many lines a file has, all of which are UTF-8.

  Unlike the original: for a file without a line it writes an empty output.

  Raises:
    InputError: none, or one that is not UTF-8: found before the work begins.
  """
  num_lines = sum(1 for _ in file_io.read_lines(path))
  if not num_lines:
    raise errors.InputError(f"{path} has no line")
  return num_lines


def chosen_examples(examples, wanted, path):
  """Returns the Examples of some lines, in the order of `wanted`.

  Raises:
    InputError: the file has no such line.
  """
  found = {}
  for example in examples:
    if example.index in wanted:
      found[example.index] = example
    if len(found) == len(set(wanted)):
      return [found[index] for index in wanted]
  missing = min(set(wanted) - found.keys())
  raise errors.InputError(
    f"--picture_lines: {path} has no line {missing}, counted from 0"
  )


def inner_values(model, example, layer):
  """Returns attention [layers, heads, T, T] and states [T, H] of a text."""
  output = model(
    tf.constant([example.input_ids]),
    token_type_ids=tf.constant([example.segment_ids]),
    return_attention=True,
  )
  attention = tf.cast(tf.stack(output.attention_probs), tf.float32)
  states = tf.cast(output.all_encoder_layers[layer][0], tf.float32)
  return attention[:, 0].numpy(), states.numpy()


def check_flags(settings):
  """Raises InputError where flags contradict each other or say nothing."""
  outputs = ("output_file", "attention_html", "embedding_plot")
  if not any(settings.get(name) for name in outputs):
    raise errors.InputError(
      "nothing to do: pass --output_file, --attention_html or "
      "--embedding_plot"
    )
  if settings.embedding_plot:
    embedding_plot.check_available()
  if not settings.init_checkpoint:
    raise errors.InputError("pass --init_checkpoint: the weights to use")
  if not all(text.isdecimal() for text in settings.picture_lines):
    raise errors.InputError(
      f"--picture_lines={','.join(settings.picture_lines)}: expected "
      "numbers of lines, say 0,3"
    )
  if settings.similarity and not settings.pooling:
    raise errors.InputError(
      "--similarity compares one vector for each text: pass --pooling=mean, "
      f"or another of {', '.join(sentence_vectors.POOLINGS)}"
    )
  if settings.pooling and "layers" in settings.given:
    raise errors.InputError(
      "--layers is for the vectors of tokens, but --pooling makes one of the "
      "line (from the last layer, or the last four): pass one of them"
    )


def layers_to_write(settings, config):
  """Returns what --layers means for a model; with --pooling none.

  Raises:
    InputError: the model has no such layer.
  """
  depth = config.num_hidden_layers
  if settings.pooling == "last_four_concat" and depth < 4:
    raise errors.InputError(
      f"--pooling=last_four_concat needs four layers, but the model has {depth}"
    )
  return [] if settings.pooling else layer_indexes(settings.layers, depth)


def make_model(settings, config, strategy):
  """Returns the BertModel with the weights of --init_checkpoint."""
  is_tpu = distribution.is_tpu(strategy)
  with strategy.scope():
    model = modeling.BertModel(
      config,
      compute_dtype=distribution.COMPUTE_DTYPES[settings.dtype],
      use_one_hot_embeddings=settings.use_one_hot_embeddings or is_tpu,
      skip_padding=settings.jit_compile != "true" and not is_tpu,
    )
  # Some published encoders have no pooler; only --pooling=pooled reads it.
  optional = [] if settings.pooling == "pooled" else ["^bert/pooler/"]
  weight_files.load(
    model.variables, settings.init_checkpoint, allowed_missing=optional
  )
  return model


def write_features(settings, model, layers, tokenizer, strategy):
  """Writes --output_file."""
  num_lines = count_lines(settings.input_file)
  read = text_batches.read_examples
  compute = token_vectors(model, layers)
  make_rows = functools.partial(token_rows, tokenizer=tokenizer)
  if settings.pooling:
    compute = text_vectors(model, settings.pooling)
    make_rows = vector_rows
  if settings.similarity:
    read, make_rows = text_batches.read_pairs, similarity_rows
  jit = settings.jit_compile == "true"
  static = jit or distribution.is_tpu(strategy)
  run = make_batch_function(
    compute,
    strategy,
    batch_size=settings.batch_size,
    static_length=settings.max_seq_length if static else None,
    jit=jit,
  )
  results = computed(
    run,
    read(settings.input_file, tokenizer, settings.max_seq_length),
    batch_size=settings.batch_size,
    group=2 if settings.similarity else 1,
  )
  with feature_files.open_writer(
    settings.output_file, settings.output_format, layers
  ) as write:
    write_rows(map(make_rows, results), write, num_lines)


def draw_pictures(settings, model, layer, tokenizer):
  """Writes --attention_html and --embedding_plot."""
  attention, vectors = [], []
  for example in chosen_examples(
    text_batches.read_examples(
      settings.input_file, tokenizer, settings.max_seq_length
    ),
    [int(text) for text in settings.picture_lines],
    settings.input_file,
  ):
    tokens = tokenizer.convert_ids_to_tokens(example.input_ids)
    probabilities, states = inner_values(model, example, layer)
    attention.append((tokens, probabilities))
    vectors.append((tokens, states))
  if settings.attention_html:
    name = os.path.basename(settings.input_file)
    page = attention_page.attention_page(attention, f"Attention in {name}")
    file_io.write_text(settings.attention_html, page)
    logging.info("attention is shown in %s", settings.attention_html)
  if settings.embedding_plot:
    title = f"Token vectors of layer {layer}"
    embedding_plot.save_plot(settings.embedding_plot, vectors, title)
    logging.info("token vectors are shown in %s", settings.embedding_plot)


def main(_):
  settings = setup.resolve(common_flags.read_settings())
  check_flags(settings)
  config = setup.model_config(settings)
  layers = layers_to_write(settings, config)
  tokenizer = setup.make_tokenizer(settings, config)

  strategy = setup.make_strategy(settings)
  if distribution.is_multi_worker(strategy):
    raise errors.InputError(
      "one process writes one file: cut --input_file and run the script once "
      "for each part, without TF_CONFIG"
    )
  model = make_model(settings, config, strategy)
  if settings.output_file:
    write_features(settings, model, layers, tokenizer, strategy)
  if settings.attention_html or settings.embedding_plot:
    draw_pictures(settings, model, layers[0] if layers else -1, tokenizer)


if __name__ == "__main__":
  command.run(main)
