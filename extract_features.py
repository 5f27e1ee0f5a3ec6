r"""Writes BERT's vectors for text: one per token and layer, or one per line.

  python extract_features.py --input_file=lines.txt --output_file=out.jsonl \
      --vocab_file=vocab.txt --bert_config_file=bert_config.json \
      --init_checkpoint=bert_model.ckpt --layers=-1,-2

A line has one text, or two as in "text one ||| text two". --pooling writes one
vector per line, and --similarity the cosine similarity of a line's two texts:

  python extract_features.py --similarity --pooling=mean \
      --input_file=pairs.txt --output_file=cosines.jsonl --model_dir=final_model

--search=FILE prints the lines of --input_file nearest to each line of FILE:

  python extract_features.py --search=queries.txt --top_k=3 --pooling=mean \
      --input_file=lines.txt --output_file=vectors.npz --model_dir=final_model

--sparse writes sparse vectors (SPLADE), as tokens and their weights:

  python extract_features.py --sparse --input_file=lines.txt \
      --output_file=weights.jsonl --model_dir=splade_model

--text prints the vector of a text, or the --similarity of two, as JSON:

  python extract_features.py --similarity --text="A man plays a guitar." \
      --text_b="Someone makes music." --model_dir=minilm
"""

from answering import export_options
from checkpoints import model_flags
from common import command, flag_values, flags
from features import search_flags
from serving import text_flags
from training import common_flags

model_flags.define()
common_flags.define_device_flags()
flags.DEFINE_string(
  "input_file", None, "File with one text per line, or two as 'a ||| b'."
)
flags.DEFINE_string("output_file", None, "File to write.")
flags.DEFINE_enum(
  "output_format",
  "jsonl",
  flag_values.FEATURE_FILE_FORMATS,
  "jsonl: google-research/bert's format. npz: for NumPy, required by --search.",
  needs="output_file",
)
flags.DEFINE_list(
  "layers",
  ["-1", "-2", "-3", "-4"],
  "Encoder layers whose token vectors are written: 0 is the lowest, -1 the "
  "last.",
  needs="output_file",
  not_with="pooling sparse",
  why=", which makes one vector per line",
)
flags.DEFINE_enum(
  "pooling",
  None,
  flag_values.SENTENCE_POOLINGS,
  "Pools the vectors of a line's tokens, and writes one vector per line. A "
  "sentence-transformers folder sets the defaults of --max_seq_length and "
  "--normalize and, with --similarity or --search, of --pooling.",
  needs="output_file|vectors_file|similarity|search",
)
flags.define_options(
  export_options.for_script("pooling_layer", needs="pooling")
)
flags.define_options(
  export_options.for_script(
    "prompt prompt_name", needs="pooling|sparse|similarity|search"
  )
)
flags.DEFINE_bool(
  "sparse",
  False,
  "Writes {token: weight} per line, from the logits of the masked-LM head.",
  needs="output_file",
  not_with="pooling output_format=npz",
)
flags.define_options(
  export_options.for_script("sparse_pooling sparse_activation", needs="sparse")
)
flags.DEFINE_bool(
  "similarity",
  False,
  "Writes the cosine similarity of each line's two texts (see --pooling), or "
  "prints it without --output_file.",
  needs="pooling",
)
search_flags.define()
flags.DEFINE_bool(
  "normalize",
  False,
  "Scales the vectors of --pooling to norm 1: dot products become cosines.",
  needs="output_file|vectors_file|search pooling",
  not_with="similarity",
  why=", whose cosines it does not change",
)
flags.DEFINE_integer(
  "batch_size",
  32,
  "Number of texts in a batch. Batches of short texts are larger, except on a "
  "TPU or with --jit_compile=true.",
  lower_bound=1,
  needs="output_file|vectors_file|similarity|search",
)
flags.DEFINE_bool(
  "use_one_hot_embeddings",
  False,
  "Looks up word embeddings by a matrix product. On a TPU, this is always on.",
)
flags.DEFINE_string(
  "attention_html",
  None,
  "HTML file to write: it shows the attention of every layer and head for "
  "--picture_lines.",
)
flags.DEFINE_list(
  "picture_lines",
  ["0"],
  "Numbers of the lines of --input_file to show, from 0.",
  needs="attention_html",
)
flags.rule("jit_compile", needs="output_file|vectors_file|similarity|search")
flags.define_options(export_options.ENGINE)
flags.rule("engine", needs="pooling|sparse")
flags.rule(
  "dtype jit_compile use_one_hot_embeddings",
  not_with="engine=onnx engine=litert",
)
text_flags.define("text", "text_b")
flags.register_multi_flags_validator(
  ["input_file", "text"],
  lambda values: values["input_file"] or values["text"],
  "Flag --input_file or --text must have a value.",
)

# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__, imports_tensorflow=text_flags.need_tensorflow)
if __name__ == "__main__" and text_flags.are_given():
  text_flags.run("sparse" if flags.FLAGS.sparse else "embedding")

import contextlib
import os
import tempfile
from collections.abc import Callable

import numpy as np
from absl import logging

import configuration
import tokenization
from checkpoints import model_files
from common import console, errors, file_io, json_files, progress, run_settings
from features import (
  attention_page,
  feature_files,
  text_batches,
  text_vectors,
  vector_search,
)
from text import cut_texts
from training import distribution, run_setup


def computes_vectors(settings: run_settings.Settings) -> bool:
  """Returns whether the flags ask for vectors, not just --attention_html."""
  names = ("output_file", "vectors_file", "similarity", "search")
  return any(settings.pick(names).values())


def check_flags(settings: run_settings.Settings) -> None:
  """Raises InputError if the flags request no output or have invalid values."""
  if not (computes_vectors(settings) or settings.attention_html):
    raise errors.InputError(
      "nothing to do: pass --output_file, --similarity, --search or "
      "--attention_html"
    )
  if not settings.init_checkpoint:
    raise errors.InputError("pass --init_checkpoint, the weights to use")
  for path in (settings.search, settings.input_file) if settings.search else ():
    # Reads every line, to find invalid UTF-8 before hours of work.
    if not sum(1 for _ in file_io.read_lines(path)):
      raise errors.InputError(f"{path} is empty; write one text per line")
  if not all(text.isdecimal() for text in settings.picture_lines):
    raise errors.InputError(
      f"--picture_lines={','.join(settings.picture_lines)}: expected line "
      "numbers, such as 0,3"
    )


def complete_settings(
  settings: run_settings.Settings, files: model_files.ModelFiles
) -> run_settings.Settings:
  """Returns the settings from the flags and the model's folder.

  Raises InputError: see model_files and run_settings.
  """
  head = ""
  if settings.sparse:
    head = "sparse"
    files.require(head)
  elif settings.pooling or settings.similarity or settings.search:
    head = "embedding"
  settings = files.complete(settings, ["max_seq_length"], head=head)
  if settings.search:
    settings = settings.filled({"output_format": "npz"})
    prompt = settings.prompt if "prompt" in settings.given else None
    chosen = files.prompts.of_search(prompt, settings.prompt_name)
    settings = settings.replace(prompt=chosen["prompt"]).filled(chosen)
  run_settings.refuse_ignored(settings)
  return settings


def write_features(
  settings: run_settings.Settings,
  tokenizer: tokenization.FullTokenizer,
  encode,
  computer,
  layers,
) -> None:
  """Writes --output_file, or prints the lines if it is not given."""
  path = settings.input_file
  # The progress bar needs the count; counting also finds invalid UTF-8 early.
  num_lines = sum(1 for _ in file_io.read_lines(path))
  if not num_lines:
    if settings.output_format != "jsonl":
      raise errors.InputError(f"{path} is empty; write one text per line")
    # As in the original: an empty input gives an empty output.
    logging.warning("the input has no lines, so the output is empty")
    if settings.output_file:
      file_io.write_text(settings.output_file, "")
    return
  names = dict(part_name="lines", unit="lines")
  bar = progress.Progress(num_lines, parts=num_lines, **names)
  with feature_files.open_writer(
    settings.output_file, settings.output_format, layers
  ) as write:
    examples = text_batches.read_examples(path, encode)
    for results in computer.compute_all(examples):
      rows = feature_files.rows_of(settings, tokenizer, results)
      write(rows)
      for _ in rows:
        bar.advance(1, 1)


def search(
  settings: run_settings.Settings, encode, encode_query, computer
) -> None:
  """Prints the nearest lines of --input_file for each line of --search.

  Raises InputError: the files are equal, and --query_prompt is given.
  """
  lines = vector_search.read_texts(settings.input_file)
  queries = vector_search.read_texts(settings.search)
  if queries == lines and "query_prompt" in settings.given:
    raise errors.InputError(
      f"--query_prompt={settings.query_prompt!r:.60}: --search and "
      "--input_file have the same lines, which are compared with themselves; "
      "pass --prompt instead, which all lines get"
    )

  def vectors_of(texts: list, encode=encode) -> list:
    examples = [encode(n, text)[0] for n, text in enumerate(texts, 1)]
    return [
      vector
      for results in computer.compute_all(examples)
      for _, vector in results
    ]

  path = settings.vectors_file or settings.output_file
  ids = (encode(1, line)[0].input_ids for line in lines)
  vectors = vector_search.read(path, ids if settings.vectors_file else ())
  vector_search.check(vectors, len(lines), vectors_of(lines[:1])[0], path)
  results = vector_search.search(
    vectors,
    lines,
    settings.top_k,
    None if queries == lines else np.array(vectors_of(queries, encode_query)),
  )
  for number, (query, rows) in enumerate(zip(queries, results)):
    values = {"linex_index": number, "query": query, "results": rows}
    console.print_line(json_files.line(values).rstrip("\n"))


def write_attention(
  settings: run_settings.Settings, model, tokenizer: tokenization.FullTokenizer
) -> None:
  """Writes --attention_html."""
  path, numbers = settings.input_file, list(map(int, settings.picture_lines))
  encode = text_batches.make_line_encoder(tokenizer, settings.max_seq_length)
  examples = text_batches.chosen_examples(path, encode, numbers)
  tokens = [tokenizer.convert_ids_to_tokens(e.input_ids) for e in examples]
  attention = (text_vectors.attention(model, example) for example in examples)
  title = f"Attention in {os.path.basename(path)}"
  page = attention_page.attention_page(zip(tokens, attention), title)
  file_io.write_text(settings.attention_html, page)
  logging.info("Wrote the attention page to %s", settings.attention_html)


def network_on_engine(
  settings: run_settings.Settings,
  config: configuration.BertConfig,
  tokenizer: tokenization.FullTokenizer,
  model,
  head,
) -> Callable | None:
  """Returns the network for --engine; None for TensorFlow."""
  if settings.engine == "tensorflow":
    return None
  # Most runs need no engine, and the module takes time to import.
  from serving import engine_choice

  names = "pooling pooling_layer normalize sparse_pooling sparse_activation"
  return engine_choice.network_on_engine(
    [*model.variables, *(head.variables if head else ())],
    settings,
    config,
    tokenizer,
    head="sparse" if head else "embedding",
    **settings.pick(names),
  )


def main(_: list[str]) -> None:
  """Writes the vectors of texts, or compares texts."""
  settings = flags.read_settings(check=False)
  files = model_files.ModelFiles.of(settings)
  settings = complete_settings(settings, files)
  check_flags(settings)
  config = run_setup.model_config(settings, files)
  layers = []
  if computes := computes_vectors(settings):
    layers = text_vectors.layers_to_write(settings, config.num_hidden_layers)
  tokenizer = files.make_tokenizer(settings)

  strategy = run_setup.make_strategy(settings)
  if distribution.is_multi_worker(strategy):
    raise errors.InputError(
      "this script runs in one process: split --input_file and run the script "
      "once per part, without TF_CONFIG"
    )
  model, head = text_vectors.load_model(settings, config, strategy)
  if computes:
    cut = cut_texts.CutTexts(settings.max_seq_length)
    encode, encode_query = (
      text_batches.make_line_encoder(
        tokenizer,
        settings.max_seq_length,
        as_pair=settings.similarity,
        cut=cut,
        prompt=prompt or "",
      )
      for prompt in (settings.prompt, settings.query_prompt)
    )
    computer = text_vectors.VectorComputer(
      text_vectors.make_compute(model, settings, layers, head),
      strategy,
      settings,
      network_on_engine(settings, config, tokenizer, model, head),
    )
    with contextlib.ExitStack() as stack:
      if settings.search and not (
        settings.output_file or settings.vectors_file
      ):
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        settings = settings.replace(output_file=f"{folder}/vectors.npz")
      if not settings.vectors_file:
        write_features(settings, tokenizer, encode, computer, layers)
      if settings.search:
        search(settings, encode, encode_query, computer)
    cut.log(settings.input_file)
  if settings.attention_html:
    write_attention(settings, model, tokenizer)


if __name__ == "__main__":
  command.run(main)
