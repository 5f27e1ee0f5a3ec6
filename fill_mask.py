r"""Fills each [MASK] of a text with the most likely word pieces.

  python fill_mask.py --text="The lighthouse keeper lit the [MASK]." \
      --model_dir=pretraining_output/final_model

--score prints how likely a text is, or whether a second text follows the first:

  python fill_mask.py --score --text="The keeper lit the lamp." \
      --text="The keeper lit the lamp. ||| The street was bright." \
      --model_dir=pretraining_output/final_model

For one text, it masks each piece in turn (arXiv 1910.14659), and prints the
perplexity per piece, the sum of the log-probabilities, and the piece count. For
two texts, it prints the probability that the second follows. Each printed line
ends with its text.

Filling needs no pooler: Hugging Face's BertForMaskedLM, which has none, works.
"""

from collections.abc import Iterable

from answering import export_options
from checkpoints import model_flags
from common import command, errors, flags, standard_input

model_flags.define()
flags.DEFINE_multi_string(
  "text",
  [],
  "Text to fill, with one or more [MASK], or to score; "
  "repeatable. - reads one per line of standard input.",
)
flags.DEFINE_string("input_file", None, "File of texts, one per line.")
flags.define_options(export_options.for_script("top_k", not_with="score"))
flags.DEFINE_bool(
  "score",
  False,
  "Instead of filling, print how likely each text is. For two texts separated "
  'by " ||| ", print the probability that the second follows the first.',
)


def check_texts() -> None:
  """Raises InputError if the flags name no text."""
  if not (flags.FLAGS.text or flags.FLAGS.input_file):
    raise errors.InputError("nothing to do: pass --text or --input_file")


command.check_early(check_texts)
# --help and flag errors need no TensorFlow, which takes seconds to import.
command.parse_flags(__name__)

from common import console, file_io
from features import text_batches
from pretraining import answers
from serving import text_models


def texts_to_fill(texts: Iterable[str], input_file):
  """Yields (source, text) for each text of the flags."""
  for text in texts:
    if text == "-":
      yield from standard_input.lines()
    else:
      yield "--text", text
  if input_file:
    lines = list(file_io.read_lines(input_file))
    while lines and not lines[-1][1].strip():
      lines.pop()  # Skip empty lines at the end.
    yield from ((f"{input_file}:{number}", line) for number, line in lines)


def described(text: str, answer, mask: str) -> str:
  """Returns a text and, for each `mask`, a line with the most likely tokens."""
  lines = [text]
  rows = zip(answer["fillings"], answer["probabilities"])
  for number, (tokens, probabilities) in enumerate(rows, 1):
    shown = "  ".join(
      f"{token} {probability:.4f}"
      for token, probability in zip(tokens, probabilities)
    )
    lines.append(f"  {mask} {number}: {shown}")
  return "\n".join(lines)


def scored(model, text: str, where: str) -> str:
  """Returns a line with the scores of a text or a text pair, and the text."""
  first, second = text_batches.split_pair(text)
  if second:
    answer = model.next_sentence((first, second))
    return f"{answer['probability']:.6f}\t{text}"
  answers.check_sentence(text, model.tokenizer, model.max_seq_length, where)
  answer = model.likelihood(text)
  return (
    f"{answer['perplexity']:.4f}\t{answer['log_likelihood']:.4f}\t"
    f"{len(answer['tokens'])}\t{text}"
  )


def main(_: list[str]) -> None:
  """Fills masks, or scores texts."""
  settings = flags.read_settings()
  names = (
    "bert_config_file vocab_file init_checkpoint do_lower_case max_seq_length "
    "never_split"
  ).split()
  given = settings.pick(name for name in names if name in settings.given)
  model = text_models.load(settings.model_dir, **given)

  for where, text in texts_to_fill(settings.text, settings.input_file):
    errors.require_text(text, where)
    if settings.score:
      shown = scored(model, text, where)
    else:
      answers.check(text, model.tokenizer, model.max_seq_length, where)
      answer = model.fill_mask(text, top_k=settings.top_k)
      shown = described(text, answer, model.tokenizer.specials.mask)
    console.print_line(shown, flush=True)


if __name__ == "__main__":
  command.run(main)
