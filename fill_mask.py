r"""Fills each [MASK] of a text with the most likely word pieces.

  python fill_mask.py --text="The lighthouse keeper lit the [MASK]." \
      --model_dir=pretraining_output/final_model

A checkpoint without a pooler will do, such as Hugging Face's BertForMaskedLM.
Without --text and --input_file it asks for texts on the terminal.
"""

from common import command, flags
from training import common_flags

common_flags.define_model_flags()
common_flags.define_tokenizer_flags()
flags.DEFINE_multi_string(
  "text", [], "Text with one [MASK] or more; may be given several times."
)
flags.DEFINE_string("input_file", None, "File of such texts, one a line.")
flags.DEFINE_integer(
  "top_k", 5, "How many word pieces are shown for each [MASK].", lower_bound=1
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import itertools
import sys

import tensorflow as tf

import modeling
from checkpoints import model_settings, weight_files
from common import errors, file_io, line_answers
from training import input_sequences, setup
from variants import registry

MASK = "[MASK]"


def texts_to_fill(texts, input_file):
  """Yields (place, text) of what is given by flags."""
  for text in texts:
    yield "--text", text
  if input_file:
    lines = list(file_io.read_lines(input_file))
    while lines and not lines[-1][1].strip():
      lines.pop()  # Empty lines at the end are no texts.
    yield from ((f"{input_file}:{number}", line) for number, line in lines)


def answer_lines(fill):
  """Fills the lines of the standard input; `fill` as in `main`."""
  source, target = line_answers.standard_streams()
  if sys.stdin.isatty():
    print("Type a text with [MASK], or an empty line to end.")
    source = itertools.takewhile(bytes.strip, source)
  bad = line_answers.answer_lines(
    source, target,
    lambda lines: [fill(text, f"line {number}") for number, text in lines],
    format_error=lambda number, error: f"error\t{error}",
  )
  line_answers.require_all_answered(bad)


def encode(tokenizer, text, where, *, max_seq_length):
  """Returns the ids of "[CLS] text [SEP]" and the indices of its masks.

  The tokenizer cuts "[MASK]" to "[", "mask", "]", as the original's does, so
  the text between the masks is tokenized piece by piece.

  Raises:
    InputError: no text, no [MASK], or more word pieces than the model takes.
  """
  errors.require_text(text, where)
  pieces = text.split(MASK)
  if len(pieces) == 1:
    raise errors.InputError(f"{where}: no {MASK} in {text!r}; write one")
  cls_id, sep_id, mask_id = tokenizer.convert_tokens_to_ids(
    ["[CLS]", "[SEP]", MASK]
  )
  ids = tokenizer.encode(pieces[0])
  for piece in pieces[1:]:
    ids += [mask_id] + tokenizer.encode(piece)
  ids, _ = input_sequences.build_inputs(
    ids, None, cls_id=cls_id, sep_id=sep_id
  )
  if len(ids) > max_seq_length:
    raise errors.InputError(
      f"{where}: {len(ids)} word pieces with [CLS] and [SEP], but "
      f"--max_seq_length is {max_seq_length}; shorten the text or "
      "raise it"
    )
  return ids, [index for index, piece in enumerate(ids) if piece == mask_id]


def make_predictor(config, init_checkpoint, *, num_tokens, top_k):
  """Loads the weights once; returns a function for many texts.

  Args:
    config: modeling.BertConfig.
    init_checkpoint: where the weights are.
    num_tokens: size of the vocabulary; the model may have room for more.
    top_k: how many word pieces to return for each position.

  Returns:
    A function of ids [1, T] and positions [1, P] that gives probabilities and
    ids of the most likely word pieces, [1, P, top_k] each.
  """
  model = registry.make_encoder(config)
  head = modeling.MaskedLMHead(config, model.word_embeddings)
  weight_files.load(
    model.variables + head.variables,
    init_checkpoint,
    # Nothing reads it here, and several classes of Hugging Face have none.
    allowed_missing=["^bert/pooler/"],
  )
  ids = tf.TensorSpec([1, None], tf.int32)

  @tf.function(input_signature=[ids, ids], autograph=False)
  def predict(input_ids, masked_lm_positions):
    # No [CLS] first: nothing reads the pooled output here.
    output = model(input_ids, positions=masked_lm_positions)
    logits = head(output.sequence_output)
    # Rows of the table beyond the vocabulary are no word.
    probabilities = tf.nn.softmax(logits[..., :num_tokens])
    return tf.math.top_k(probabilities, k=top_k)

  return predict


def described(text, filled, tokenizer):
  """Returns a text and, for each [MASK], a line of what fits best."""
  lines = [text]
  probabilities, ids = filled.values.numpy()[0], filled.indices.numpy()[0]
  for number, (row, tokens) in enumerate(zip(probabilities, ids), 1):
    shown = "  ".join(
      f"{token} {probability:.4f}"
      for token, probability in zip(
        tokenizer.convert_ids_to_tokens(tokens.tolist()), row
      )
    )
    lines.append(f"  {MASK} {number}: {shown}")
  return "\n".join(lines)


def main(_):
  settings = model_settings.resolve(flags.read_settings())
  settings = model_settings.restore_trained(
    settings, ["max_seq_length", "do_lower_case"]
  )
  config = setup.model_config(settings)
  if not settings.init_checkpoint:
    raise errors.InputError(
      "pass --init_checkpoint or --model_dir: the weights to use"
    )
  tokenizer = model_settings.make_tokenizer(settings, config)
  num_tokens = len(tokenizer.vocab)
  predict = make_predictor(
    config,
    settings.init_checkpoint,
    num_tokens=num_tokens,
    top_k=min(settings.top_k, num_tokens),
  )

  def fill(text, where):
    ids, positions = encode(
      tokenizer, text, where, max_seq_length=settings.max_seq_length
    )
    filled = predict(tf.constant([ids]), tf.constant([positions]))
    return described(text, filled, tokenizer)

  for where, text in texts_to_fill(settings.text, settings.input_file):
    print(fill(text, where), flush=True)
  if not (settings.text or settings.input_file):
    answer_lines(fill)


if __name__ == "__main__":
  command.run(main)
