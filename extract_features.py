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

import os

import tensorflow as tf
from absl import app, flags, logging

import attention_page
import checkpoints
import common_flags
import data_files
import distribution
import embedding_plot
import errors
import feature_files
import modeling
import progress
import sentence_vectors
import text_batches
import tokenization

FLAGS = flags.FLAGS

# Tokens whose vectors are held in memory at a time: 200 MB for four layers of
# BERT-base.
_WINDOW_TOKENS = 1 << 14

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "input_file", None, "Lines of text: one text, or two as 'a ||| b'.",
  required=True,
)
flags.DEFINE_string("output_file", None, "The file to write.")
flags.DEFINE_enum(
  "output_format", "jsonl", tuple(feature_files.FORMATS),
  "jsonl: as the original. npz: for numpy. parquet: needs pyarrow.",
)
flags.DEFINE_list(
  "layers", ["-1", "-2", "-3", "-4"],
  "Encoder layers whose token vectors are written: 0 is the lowest, -1 the "
  "last.",
)
flags.DEFINE_enum(
  "pooling", None, sentence_vectors.POOLINGS,
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


def check_flags():
  """Raises InputError where flags contradict each other or say nothing."""
  if not (FLAGS.output_file or FLAGS.attention_html or FLAGS.embedding_plot):
    raise errors.InputError(
      "nothing to do: pass --output_file, --attention_html or "
      "--embedding_plot"
    )
  if FLAGS.embedding_plot:
    embedding_plot.check_available()
  if not all(text.isdecimal() for text in FLAGS.picture_lines):
    raise errors.InputError(
      f"--picture_lines={','.join(FLAGS.picture_lines)}: expected numbers of "
      "lines, say 0,3"
    )
  if FLAGS.similarity and not FLAGS.pooling:
    raise errors.InputError(
      "--similarity compares one vector for each text: pass --pooling=mean, "
      f"or another of {', '.join(sentence_vectors.POOLINGS)}"
    )
  if FLAGS.pooling and FLAGS["layers"].present:
    raise errors.InputError(
      "--layers is for the vectors of tokens, but --pooling makes one of the "
      "line (from the last layer, or the last four): pass one of them"
    )


def layer_indexes(num_hidden_layers):
  """Returns --layers as a list of integers.

  Raises:
    InputError: no number, or not a layer of the model.
  """
  indexes = []
  for text in FLAGS.layers:
    is_number = text.strip().removeprefix("-").isdecimal()
    if not is_number or not (
      -num_hidden_layers <= int(text) < num_hidden_layers
    ):
      raise errors.InputError(
        f"--layers={','.join(FLAGS.layers)}: {text!r} is no layer of this "
        f"model, which has {num_hidden_layers}; pass numbers from "
        f"-{num_hidden_layers} to {num_hidden_layers - 1}"
      )
    indexes.append(int(text))
  return indexes


def load_model(config):
  """Returns the BertModel with the weights of --init_checkpoint."""
  strategy = tf.distribute.get_strategy()
  model = modeling.BertModel(
    config,
    compute_dtype=distribution.COMPUTE_DTYPES[FLAGS.dtype],
    use_one_hot_embeddings=(
      FLAGS.use_one_hot_embeddings or distribution.is_tpu(strategy)
    ),
  )
  # Some published encoders have no pooler; only --pooling=pooled reads it.
  optional = [] if FLAGS.pooling == "pooled" else ["^bert/pooler/"]
  checkpoints.load(
    model.variables, FLAGS.init_checkpoint, allowed_missing=optional
  )
  return model


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
    output = model(input_ids, input_mask, segment_ids)
    return sentence_vectors.pool(pooling, output, input_mask)

  return compute


def make_batch_function(compute, strategy):
  """Returns a function of a list of Examples that gives an array, a row each.

  Args:
    compute: function of input_ids, input_mask and segment_ids [B, T].
    strategy: the strategy in whose scope the model was made.
  """
  replicas = strategy.num_replicas_in_sync
  jit = FLAGS.jit_compile == "true"
  # A compiler would compile each shape anew.
  static = jit or distribution.is_tpu(strategy)
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
    rows, length = FLAGS.batch_size, FLAGS.max_seq_length
    if not static:
      rows = len(examples)
      length = max(len(example.input_ids) for example in examples)
    # Each replica gets as many rows as the others.
    rows += -rows % replicas
    batch = text_batches.padded(examples, rows=rows, length=length)
    return step(**batch).numpy()[: len(examples)]

  return run


def computed(run, examples, *, group=1):
  """Yields lists of (Example, its values), window after window, in order."""
  for window in text_batches.windows(examples, _WINDOW_TOKENS, group=group):
    values = [None] * len(window)
    for places in text_batches.batches_by_length(window, FLAGS.batch_size):
      for place, row in zip(places, run([window[i] for i in places])):
        values[place] = row
    yield list(zip(window, values))


def token_rows(run, tokenizer):
  """Yields lists of feature_files.TokenRow for the lines of --input_file."""
  examples = text_batches.read_examples(
    FLAGS.input_file, tokenizer, FLAGS.max_seq_length
  )
  for results in computed(run, examples):
    yield [
      feature_files.TokenRow(
        index=example.index,
        tokens=tokenizer.convert_ids_to_tokens(example.input_ids),
        input_ids=example.input_ids,
        values=values[:, : len(example.input_ids)],
      )
      for example, values in results
    ]


def vector_rows(run, tokenizer):
  """Yields lists of feature_files.VectorRow for the lines of --input_file."""
  examples = text_batches.read_examples(
    FLAGS.input_file, tokenizer, FLAGS.max_seq_length
  )
  for results in computed(run, examples):
    yield [
      feature_files.VectorRow(example.index, vector)
      for example, vector in results
    ]


def similarity_rows(run, tokenizer):
  """Yields lists of feature_files.SimilarityRow for pairs of texts."""
  texts = text_batches.read_pairs(
    FLAGS.input_file, tokenizer, FLAGS.max_seq_length
  )
  for results in computed(run, texts, group=2):
    vectors = [vector for _, vector in results]
    similarities = sentence_vectors.cosines(vectors[::2], vectors[1::2])
    yield [
      feature_files.SimilarityRow(example.index, similarity)
      for (example, _), similarity in zip(results[::2], similarities)
    ]


def write_features(model, layers, tokenizer, strategy):
  """Writes --output_file, telling how far it is."""
  # Counted first, so that a line that is not UTF-8 is found before the work.
  num_lines = sum(1 for _ in data_files.read_lines(FLAGS.input_file))
  if not num_lines:
    raise errors.InputError(f"{FLAGS.input_file} has no line")
  if FLAGS.pooling:
    compute = text_vectors(model, FLAGS.pooling)
    make_rows = similarity_rows if FLAGS.similarity else vector_rows
  else:
    compute, make_rows = token_vectors(model, layers), token_rows
  run = make_batch_function(compute, strategy)
  bar = progress.Progress(
    num_lines, parts=num_lines, part_name="lines", unit="lines"
  )
  with feature_files.open_writer(
    FLAGS.output_file, FLAGS.output_format, layers
  ) as write:
    for rows in make_rows(run, tokenizer):
      write(rows)
      for _ in rows:
        bar.advance(1, 1)


def picture_examples(tokenizer):
  """Returns the Examples of --picture_lines.

  Raises:
    InputError: --input_file has no such line.
  """
  wanted = [int(text) for text in FLAGS.picture_lines]
  found = {}
  for example in text_batches.read_examples(
    FLAGS.input_file, tokenizer, FLAGS.max_seq_length
  ):
    if example.index in wanted:
      found[example.index] = example
    if len(found) == len(set(wanted)):
      return [found[index] for index in wanted]
  missing = min(set(wanted) - found.keys())
  raise errors.InputError(
    f"--picture_lines: {FLAGS.input_file} has no line {missing}, counted from "
    "0"
  )


def draw_pictures(model, layers, tokenizer):
  """Writes --attention_html and --embedding_plot."""
  attention, vectors = [], []
  for example in picture_examples(tokenizer):
    tokens = tokenizer.convert_ids_to_tokens(example.input_ids)
    output = model(
      tf.constant([example.input_ids]),
      token_type_ids=tf.constant([example.segment_ids]),
      return_attention=True,
    )
    probabilities = tf.cast(tf.stack(output.attention_probs), tf.float32)
    attention.append((tokens, probabilities[:, 0].numpy()))
    states = output.all_encoder_layers[layers[0] if layers else -1]
    vectors.append((tokens, tf.cast(states[0], tf.float32).numpy()))
  if FLAGS.attention_html:
    name = os.path.basename(FLAGS.input_file)
    page = attention_page.attention_page(attention, f"Attention in {name}")
    data_files.write_text(FLAGS.attention_html, page)
    logging.info("attention is shown in %s", FLAGS.attention_html)
  if FLAGS.embedding_plot:
    embedding_plot.save_plot(
      FLAGS.embedding_plot,
      vectors,
      f"Token vectors of layer {layers[0] if layers else -1}",
    )
    logging.info("token vectors are shown in %s", FLAGS.embedding_plot)


def main(argv):
  del argv
  check_flags()
  if not FLAGS.init_checkpoint:
    raise errors.InputError("pass --init_checkpoint: the weights to use")
  config = modeling.BertConfig.from_dict(
    checkpoints.read_config(FLAGS.bert_config_file)
  )
  config.check_sequence_length(FLAGS.max_seq_length)
  layers = [] if FLAGS.pooling else layer_indexes(config.num_hidden_layers)
  if FLAGS.pooling == "last_four_concat" and config.num_hidden_layers < 4:
    raise errors.InputError(
      f"--pooling=last_four_concat needs four layers, but the model has "
      f"{config.num_hidden_layers}"
    )
  tokenization.validate_case_matches_checkpoint(
    FLAGS.do_lower_case, FLAGS.init_checkpoint
  )
  tokenizer = tokenization.FullTokenizer(
    FLAGS.vocab_file, do_lower_case=FLAGS.do_lower_case
  )
  config.check_vocabulary(len(tokenizer.vocab), FLAGS.vocab_file)

  strategy = common_flags.make_strategy()
  if distribution.is_multi_worker(strategy):
    raise errors.InputError(
      "one process writes one file: cut --input_file and run the script once "
      "for each part, without TF_CONFIG"
    )
  with strategy.scope():
    model = load_model(config)
  if FLAGS.output_file:
    write_features(model, layers, tokenizer, strategy)
  if FLAGS.attention_html or FLAGS.embedding_plot:
    draw_pictures(model, layers, tokenizer)


if __name__ == "__main__":
  app.run(errors.report_input_errors(main))
