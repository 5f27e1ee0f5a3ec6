"""Columns of words and tags made of SQuAD's paragraphs: which words are names?

  python benchmarks/tagging_data.py --squad_file=dev-v1.1.json \
      --output_dir=names

Writes train.conll and dev.conll in two columns, a word and its tag. The words
are in small letters, and the tags say which of them Wikipedia writes with a
capital: B-NAME and I-NAME for runs of such words, O for all others. An uncased
model must tell names from other words by what it knows and by the sentence.

The first word of a sentence has a capital in any case. It counts as a name if
most of its other occurrences in the file, inside sentences, have a capital.

Every fifth article is of dev.conll, the others are of train.conll. Sentences
of less than 5 or more than 60 words, and those with characters that an uncased
tokenizer drops, are left out; of the rest, --train_sentences and
--dev_sentences are taken at equal distances. No number is drawn: the same file
gives the same columns.
"""

import argparse
import collections
import os
import pathlib
import re
import sys
import unicodedata

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from common import errors, file_io, json_files
from pretraining import sentence_splitting

# U.S., the 's of a possessive, words with hyphens or apostrophes in them, and
# any other character by itself.
_WORD = re.compile(
  r"(?:[^\W\d_]\.){2,}|['’]s\b|[^\W_]+(?:[-'’](?!s\b)[^\W_]+)*|\S"
)
_SHORTEST, _LONGEST = 5, 60  # Words of a sentence.
_DEV_EVERY = 5  # Articles.


def has_capital(word):
  """Whether a letter of a word is a capital: NASA, Paris and iPod."""
  return any(letter.isupper() for letter in word)


def is_plain(sentence):
  """Whether a tokenizer that drops accents keeps a piece of every character.

  Accents of their own, control characters and the like would be words without
  a word piece.
  """
  return not any(unicodedata.category(c)[0] in "MC" for c in sentence)


def read_articles(path):
  """Returns a list of articles, each a list of sentences, lists of words.

  Args:
    path: a JSON file of SQuAD.

  Raises:
    InputError: the file is missing or is not of SQuAD.
  """
  try:
    return [
      [
        words
        for paragraph in article["paragraphs"]
        for words in paragraph_sentences(paragraph["context"])
      ]
      for article in json_files.read(str(path))["data"]
    ]
  except (KeyError, TypeError) as error:
    raise errors.InputError(
      f"{path} has no data, paragraphs and context as SQuAD's files have"
    ) from error


def paragraph_sentences(text):
  """Returns the words of each sentence of a paragraph that is to be used."""
  # An accent of its own and its letter become one letter where there is one.
  text = unicodedata.normalize("NFC", text)
  found = [
    _WORD.findall(sentence)
    for sentence in sentence_splitting.split_sentences(text)
    if is_plain(sentence)
  ]
  return [words for words in found if _SHORTEST <= len(words) <= _LONGEST]


def usual_names(articles):
  """Returns the words, in small letters, that mostly have a capital.

  Only those that do not begin a sentence count.
  """
  counts = collections.Counter()
  for sentences in articles:
    for words in sentences:
      for word in words[1:]:
        counts[word.lower()] += 1 if has_capital(word) else -1
  return {word for word, count in counts.items() if count > 0}


def tags_of(words, names):
  """Returns the tag of each word of a sentence.

  Args:
    words: list of str, as the text has them.
    names: what `usual_names` returned, which decides about the first word.
  """
  tags, before = [], False
  for number, word in enumerate(words):
    is_name = has_capital(word) and (number > 0 or word.lower() in names)
    tags.append(("I-NAME" if before else "B-NAME") if is_name else "O")
    before = is_name
  return tags


def spread_evenly(articles, count):
  """Leaves `count` sentences, at equal distances, in a list of articles."""
  total = sum(map(len, articles))
  if count > total:
    raise errors.InputError(
      f"there are {total} sentences, {count} are wanted; ask for fewer"
    )
  taken = {number * total // count for number in range(count)}
  numbers = iter(range(total))
  return [
    [words for words in sentences if next(numbers) in taken]
    for sentences in articles
  ]


def columns(articles, names):
  """Returns the text of a file: documents, sentences, words with their tags."""
  blocks = []
  for sentences in articles:
    blocks.append("-DOCSTART- O\n")
    for words in sentences:
      pairs = zip(words, tags_of(words, names), strict=True)
      blocks.append("".join(f"{word.lower()} {tag}\n" for word, tag in pairs))
  # An empty line ends a sentence.
  return "\n".join(blocks)


def make(arguments):
  """Writes both files, and prints what they hold."""
  articles = read_articles(arguments.squad_file)
  # Of all articles: what a word is does not depend on the sentences taken.
  names = usual_names(articles)
  dev = articles[_DEV_EVERY - 1 :: _DEV_EVERY]
  train = [a for n, a in enumerate(articles) if (n + 1) % _DEV_EVERY]
  texts = {
    name: columns(spread_evenly(part, count), names)
    for name, part, count in (
      ("train", train, arguments.train_sentences),
      ("dev", dev, arguments.dev_sentences),
    )
  }
  arguments.output_dir.mkdir(parents=True, exist_ok=True)
  for name, text in texts.items():
    path = arguments.output_dir / f"{name}.conll"
    file_io.write_text(str(path), text)
    words = text.count("\n") - text.count("\n\n") - text.count("-DOCSTART-")
    print(f"{path}: {words} words, {text.count(' B-NAME')} names")


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--squad_file", type=pathlib.Path, required=True)
  parser.add_argument("--output_dir", type=pathlib.Path, required=True)
  parser.add_argument("--train_sentences", type=int, default=4000)
  parser.add_argument("--dev_sentences", type=int, default=1000)
  return parser.parse_args()


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: make(parse_arguments()))(sys.argv)
