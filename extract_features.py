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

Texts that come one by one are answered at once, by a line of JSON each:

  echo "a warm film" | python extract_features.py --input_file=- \
      --pooling=mean --model_dir=final_model
"""

from common import choices, command, flags
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
common_flags.define_device_flags()
flags.DEFINE_string(
  "input_file", None,
  "Lines of text: one text, or two as 'a ||| b'. -: the standard input; each "
  "line is answered by JSON on the standard output, without --output_file.",
  required=True,
)
flags.DEFINE_string(
  "output_file", None, "The file to write.", not_with="input_file=-"
)
flags.DEFINE_enum(
  "output_format", "jsonl", choices.FEATURE_FILE_FORMATS,
  "jsonl: as the original. npz: for numpy.",
  needs="output_file|input_file=-", not_with="input_file=-",
)
flags.DEFINE_list(
  "layers", ["-1", "-2", "-3", "-4"],
  "Encoder layers whose token vectors are written: 0 is the lowest, -1 the "
  "last.", needs="output_file|input_file=-|embedding_plot", not_with="pooling",
  why=", which makes one vector of a line",
)
flags.DEFINE_enum(
  "pooling", None, choices.SENTENCE_POOLINGS,
  "Writes one vector for each line, made of those of its tokens, instead of "
  "--layers.", needs="output_file|input_file=-",
)
flags.DEFINE_bool(
  "similarity", False,
  "Writes the cosine between the vectors (see --pooling) of the two texts of "
  "each line.", needs="output_file|input_file=- pooling",
)
flags.DEFINE_bool(
  "normalize", False,
  "Scales each vector of --pooling to length 1: dot products of such vectors "
  "are cosines.", needs="output_file|input_file=- pooling",
  not_with="similarity", why=", whose cosines it does not change",
)
flags.DEFINE_integer(
  "batch_size", 32,
  "Texts in one batch; of short ones more, where shapes vary.", lower_bound=1,
  needs="output_file|input_file=-",
)
flags.DEFINE_bool(
  "use_one_hot_embeddings", False,
  "Looks words up by a matrix product, as is always done on a TPU.",
)
flags.DEFINE_string(
  "attention_html", None,
  "Writes a page for the browser: the attention of every layer and head in "
  "--picture_lines.", not_with="input_file=-",
)
flags.DEFINE_string(
  "embedding_plot", None,
  "Draws the token vectors (first of --layers) of --picture_lines as points, "
  "in a .png, .svg or .pdf file; needs matplotlib.", not_with="input_file=-",
)
flags.DEFINE_list(
  "picture_lines", ["0"], "Lines of --input_file in the pictures, from 0.",
  needs="attention_html|embedding_plot", not_with="input_file=-",
)
flags.rule("jit_compile", needs="output_file|input_file=-")

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os

from absl import logging

from checkpoints import model_settings
from common import errors, file_io, json_files, line_answers, progress
from features import (
  attention_page,
  embedding_plot,
  feature_files,
  sentence_vectors,
  text_batches,
  text_vectors,
)
from training import components, distribution


def write_rows(lists_of_rows, write, num_lines):
  """Writes rows as they come, and logs the progress."""
  if not num_lines:
    # As in the original: no line in, no line out.
    logging.warning("the input has no line: the output has none either")
    return
  bar = progress.Progress(
    num_lines, parts=num_lines, part_name="lines", unit="lines"
  )
  for rows in lists_of_rows:
    write(rows)
    for _ in rows:
      bar.advance(1, 1)


def check_flags(settings):
  """Raises InputError where flags ask for nothing or cannot be used."""
  outputs = ("output_file", "attention_html", "embedding_plot")
  if settings.input_file != "-" and not any(
    settings.get(name) for name in outputs
  ):
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


def make_computer(settings, model, layers, strategy):
  """Returns the text_vectors.VectorComputer of the flags."""
  if settings.pooling:
    compute = text_vectors.text_vectors(
      model, settings.pooling, settings.normalize
    )
  else:
    compute = text_vectors.token_vectors(model, layers)
  jit = settings.jit_compile == "true"
  # XLA compiles each length anew, so there is one for all batches.
  is_static = jit or distribution.is_tpu(strategy)
  return text_vectors.VectorComputer(
    compute,
    strategy,
    batch_size=settings.batch_size,
    max_length=settings.max_seq_length,
    is_static=is_static,
    jit=jit,
    group=2 if settings.similarity else 1,
  )


def rows_of(settings, tokenizer, results):
  """Returns the rows for a file of a list of (Example, its vectors)."""
  if settings.similarity:
    # a, b, a, b, ...: the two texts of a line follow each other.
    vectors = [vector for _, vector in results]
    cosines = sentence_vectors.cosines(vectors[::2], vectors[1::2])
    return [
      feature_files.SimilarityRow(example.index, cosine)
      for (example, _), cosine in zip(results[::2], cosines)
    ]
  if settings.pooling:
    return [feature_files.VectorRow(e.index, vector) for e, vector in results]
  return [
    feature_files.TokenRow(
      example.index,
      tokenizer.convert_ids_to_tokens(example.input_ids),
      example.input_ids,
      # Without the padding of its batch.
      values[:, : len(example.input_ids)],
    )
    for example, values in results
  ]


def answer_lines(settings, computer, layers, tokenizer):
  """Answers the lines of the standard input until it ends.

  Each by the JSON that the same line of a file would give.

  Raises:
    InputError: some could not be answered; all others are by then.
  """
  encode = text_batches.make_line_encoder(
    tokenizer, settings.max_seq_length, as_pair=settings.similarity
  )

  def answer(lines):
    examples = [example for line in lines for example in encode(*line)]
    return [
      feature_files.json_line(row, layers)
      for block in computer.compute_all(examples)
      for row in rows_of(settings, tokenizer, block)
    ]

  def format_error(number, error):
    # As in the original: counted from 0, and spelled so.
    values = {"linex_index": number - 1, "error": str(error)}
    return json_files.line(values).rstrip("\n")

  bad = line_answers.answer_lines(
    *line_answers.standard_streams(), answer, batch_size=settings.batch_size,
    takes_empty=True, format_error=format_error,
  )
  line_answers.require_all_answered(bad)


def write_features(settings, computer, layers, tokenizer):
  """Writes --output_file."""
  # For the progress bar, and so that bad UTF-8 is found before hours of work.
  num_lines = text_batches.count_lines(settings.input_file)
  if not num_lines and settings.output_format != "jsonl":
    raise errors.InputError(f"{settings.input_file} has no line")
  encode = text_batches.make_line_encoder(
    tokenizer, settings.max_seq_length, as_pair=settings.similarity
  )
  blocks = computer.compute_all(
    text_batches.read_examples(settings.input_file, encode)
  )
  with feature_files.open_writer(
    settings.output_file, settings.output_format, layers
  ) as write:
    rows = (rows_of(settings, tokenizer, block) for block in blocks)
    write_rows(rows, write, num_lines)


def draw_pictures(settings, model, layer, tokenizer):
  """Writes --attention_html and --embedding_plot."""
  encode = text_batches.make_line_encoder(tokenizer, settings.max_seq_length)
  attention, vectors = [], []
  for example in text_batches.chosen_examples(
    text_batches.read_examples(settings.input_file, encode),
    [int(text) for text in settings.picture_lines],
    settings.input_file,
  ):
    tokens = tokenizer.convert_ids_to_tokens(example.input_ids)
    probabilities, states = text_vectors.inner_values(model, example, layer)
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
  settings = model_settings.resolve(flags.read_settings())
  settings = model_settings.restore_trained(settings, ["max_seq_length"])
  check_flags(settings)
  config = components.model_config(settings)
  layers = text_vectors.layers_to_write(settings, config)
  tokenizer = model_settings.make_tokenizer(settings, config)

  strategy = components.make_strategy(settings)
  if distribution.is_multi_worker(strategy):
    raise errors.InputError(
      "one process writes one file: cut --input_file and run the script once "
      "for each part, without TF_CONFIG"
    )
  model = text_vectors.load_model(settings, config, strategy)
  if text_vectors.computes_vectors(settings):
    computer = make_computer(settings, model, layers, strategy)
    make = write_features if settings.output_file else answer_lines
    make(settings, computer, layers, tokenizer)
  if settings.attention_html or settings.embedding_plot:
    # Of the first of --layers, or of the last layer.
    draw_pictures(settings, model, layers[0] if layers else -1, tokenizer)


if __name__ == "__main__":
  command.run(main)
