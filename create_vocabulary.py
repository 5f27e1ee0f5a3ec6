"""Learns a WordPiece vocabulary, vocab.txt, from text.

  python create_vocabulary.py --input_file="text/*.txt" --output_file=vocab.txt

The text must be UTF-8. The script reads it line by line. 20 MB of novels (4.5
million words) take 6 s on two CPU cores: half to count words, half to learn the
vocabulary. The same text and flags always give the same file.

The vocabulary starts like the released ones: [PAD], up to 99 [unused] tokens,
[UNK] (id 100 after 99 [unused] tokens), [CLS], [SEP], [MASK] and the other
[unused] tokens. The characters follow, then the longer pieces, the most
frequent first.
"""

from collections.abc import Iterator

from common import command, flags
from pretraining import text_flags

text_flags.define_text_flag()
flags.DEFINE_string(
  "output_file", "vocab.txt", "File to write, one token per line."
)
flags.DEFINE_integer(
  "vocab_size", 30522, "Maximum number of tokens.", lower_bound=1
)
flags.DEFINE_bool(
  "do_lower_case",
  True,
  "Lower-case the text and strip accents, for an uncased model.",
)
flags.DEFINE_integer(
  "num_unused_tokens",
  0,
  "Number of tokens [unused1], [unused2], ... that you can replace later.",
  lower_bound=0,
)
flags.DEFINE_integer(
  "min_frequency",
  2,
  "A piece of two or more characters must occur at least this often.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_characters",
  1000,
  "The N most frequent characters enter the vocabulary and are never [UNK]. "
  "Chinese or Japanese text needs about 8000.",
  lower_bound=1,
)
text_flags.define_smoothing_flag()

command.parse_flags(__name__, imports_tensorflow=False)

from absl import logging

from common import errors, file_io, progress
from pretraining import data, languages, text_files, vocabulary


def main(_: list[str]) -> None:
  """Learns a vocabulary and writes it."""
  settings = flags.read_settings()
  paths = file_io.expand_file_patterns(settings.input_file)
  # Opens the output first, to fail before hours of reading if it is unwritable.
  with file_io.open_for_writing(settings.output_file) as stream:
    lines = read_lines(paths)
    if settings.language_smoothing != 1:
      whole = data.whole_files(paths)
      pieces = languages.smoothed(whole, settings.language_smoothing)
      lines = data.read_lines(pieces, joined=False)
    words, characters = vocabulary.count_words(lines, settings.do_lower_case)
    if not words:
      raise errors.InputError(f"no word in {', '.join(paths)}; give more text")
    logging.info(
      "Learning from %d words, %d different", words.total(), len(words)
    )
    tokens = vocabulary.learn(
      words,
      characters,
      **settings.pick(
        "do_lower_case vocab_size num_unused_tokens min_frequency "
        "max_characters"
      ),
    )
    stream.write("\n".join([*tokens, ""]).encode("utf-8"))
  logging.info("Wrote %d tokens to %s", len(tokens), settings.output_file)
  if len(tokens) < settings.vocab_size:
    logging.warning(
      "Fewer than --vocab_size=%d: no other piece occurs %d times or more. For "
      "a larger vocabulary, give more text or a smaller --min_frequency",
      settings.vocab_size,
      settings.min_frequency,
    )


def read_lines(paths: list[str]) -> Iterator[str]:
  """Yields the lines of text in files, and shows the progress.

  Raises InputError: a line is not UTF-8, or is a tag of wikiextractor.
  """
  shown = progress.Progress(
    len(paths), parts=len(paths), part_name="files", unit="lines"
  )
  for path in paths:
    num_lines = 0
    for _, line in file_io.read_lines(path, text_files.open_text):
      num_lines += 1
      yield from data.text_lines(path, line)
    shown.advance(1, num_lines)


if __name__ == "__main__":
  command.run(main)
