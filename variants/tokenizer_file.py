"""Tokenizes text with a tokenizer.json, as for RoBERTa and other models.

Hugging Face's library `tokenizers` writes the file, and reads it to tokenize
text: with byte-level BPE (RoBERTa), a unigram model (XLM-R, CamemBERT), or any
other algorithm. The file also defines the special tokens around texts, and
whether text is lower-cased.
"""

import bisect
import itertools
import json
import operator
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

import tokenization
from common import errors, file_io, json_files

_UNKNOWN = ("<unk>", "[UNK]")
# The special tokens with a role, including CamemBERT's "NOTUSED" tokens.
_ROLE = re.compile(
  r"\[(PAD|UNK|CLS|SEP|MASK)\]|</?(s|pad|unk|mask|cls|sep)>(NOTUSED)?"
)
_MASKS = ("<mask>", "[MASK]")
# Rules of tokenizer_config.json, and their names in a tokenizer.json.
RULES = {
  "do_lower_case": "lowercase",
  "strip_accents": "strip_accents",
  "tokenize_chinese_chars": "handle_chinese_chars",
}
# Classes of transformers that read a tokenizer.json as it is.
GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
COMMAND = "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
REMEDY = f"have transformers write tokenizer.json: {COMMAND}"
# Marks of a piece that begins a word: of SentencePiece (U+2581), and of
# byte-level BPE.
_WORD_MARKS = ("▁", "Ġ")


class FileTokenizer(tokenization.FullTokenizer):
  """Tokenizes text with a tokenizer.json, like a FullTokenizer.

  Pieces may contain the space before a word: "▁sm" "ith" or "Ġsm" "ith" is
  " smith".

  Attributes:
    do_lower_case: False, because the file's rules lower-case text if needed.
    vocab_file: path of the file.
    vocab: {piece: id}; do not change it.
    inv_vocab: {id: piece}.
  """

  do_lower_case = False
  never_split = ()

  def __init__(self, vocab_file: str):
    """Reads the file.

    Raises InputError: it is missing or from another program, or places its
    special tokens differently from BERT.
    """
    self._tokenizer = _open(vocab_file)
    vocab = self._tokenizer.get_vocab()
    # The library's order varies, but masking draws random tokens by index.
    ordered = sorted(vocab.items(), key=operator.itemgetter(1))
    self.vocab_file, self.vocab = vocab_file, dict(ordered)
    self.inv_vocab = {index: piece for piece, index in ordered}
    self.unk_token = _first_of(_UNKNOWN, vocab)
    self.specials = _specials(vocab_file, self._tokenizer)._replace(
      mask=_first_of(_MASKS, vocab)
    )

  def __reduce__(self):
    # For pickling: each worker process reads the file.
    return FileTokenizer, (self.vocab_file,)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of `text`; bytes are UTF-8.

    A part of the text without a piece becomes "<unk>". As in BERT's tokenizer,
    the text of a special token is ordinary text.
    """
    return self.convert_ids_to_tokens(self.encode(text))

  def encode(self, text: str | bytes) -> list[int]:
    """Returns the ids of the pieces of `text`."""
    return self.encode_lines([text])[0]

  def encode_lines(self, lines: list[str | bytes]) -> tuple:
    """Encodes many lines, see FullTokenizer.encode_lines.

    The third result marks tokens that continue a word, see
    data.Corpus.continues of pre-training. The file's rules define the words.
    """
    encodings = self._tokenizer.encode_batch(
      list(map(_valid, lines)), add_special_tokens=False
    )
    ids = list(itertools.chain.from_iterable(each.ids for each in encodings))
    continues = bytearray()
    for each in encodings:
      words = each.word_ids
      continues += bytes(map(_is_same_word, words, [None, *words]))
    return ids, list(map(len, encodings)), bytes(continues)

  def encode_words(self, words: Sequence[str]) -> list[list[int]]:
    """Returns the ids of each word, after tokenizing the joined words.

    A piece belongs to the word with the piece's last character.
    """
    text = _valid(" ".join(words))
    encoding = self._tokenizer.encode(text, add_special_tokens=False)
    # For "in Rome", these are [3, 8]: they include the space after each word.
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    of_words: list[list[int]] = [[] for _ in words]
    for index, (start, end) in zip(encoding.ids, encoding.offsets):
      # A piece that is a single space belongs to the next word.
      place = end - 1 if text[start:end].strip() else end
      of_words[bisect.bisect_right(ends, place)].append(index)
    return of_words

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["Ġsm", "ith", "'"] -> "smith'"."""
    decoder, pieces = self._tokenizer.decoder, list(pieces)
    text = decoder.decode(pieces) if decoder else " ".join(pieces)
    return " ".join(text.split())

  def word_text(self, word: str) -> str:
    """Returns the text of a word's pieces, including unknown characters."""
    word = _valid(word)
    encoding = self._tokenizer.encode(word, add_special_tokens=False)
    unknown = self.vocab.get(self.unk_token)
    return self.joined_pieces(
      word[slice(*place)] if index == unknown else self.inv_vocab[index]
      for index, place in zip(encoding.ids, encoding.offsets)
    )

  def find_answer(
    self, tokens: list[str], answer_text: str, before: str = ""
  ) -> tuple[int, ...] | None:
    """Returns the first and last of the pieces with an answer, or None.

    "(1907-1988)." is ▁( 1907 - 1988 ) . but the answer "1907" alone is ▁1907.
    So this compares characters, and the result includes all pieces with any of
    them. `tokens` are the pieces of the words with the answer; `before` is the
    text of these words before the answer. The match nearest to its end counts.
    """
    answer = "".join(self.tokenize(answer_text))
    for mark in _WORD_MARKS:
      answer = answer.removeprefix(mark)
    whole, near = "".join(tokens), len("".join(self.tokenize(before)))
    places = (
      [
        match.start()
        for match in re.finditer(f"(?={re.escape(answer)})", whole)
      ]
      if answer
      else []
    )
    if not places:
      return None
    start = min(places, key=lambda place: abs(place - near))
    # The end of each piece, counted in characters of all joined pieces.
    ends = np.cumsum([len(token) for token in tokens])
    return tuple(
      int(np.searchsorted(ends, place, side="right"))
      for place in (start, start + len(answer) - 1)
    )


def tokens_of(vocab_file: str) -> set[str]:
  """Returns the tokens of a tokenizer.json, including added tokens.

  Raises InputError like FileTokenizer.
  """
  return {*_open(vocab_file).get_vocab()}


def content_of(vocab_file: str) -> str:
  """Returns the text of a tokenizer.json.

  As in transformers, the rules in tokenizer_config.json replace those in it.
  Raises InputError: a file is missing or damaged.
  """
  with file_io.open_for_reading(vocab_file) as stream:
    content = stream.read().decode("utf-8", "replace")
  _, config = json_files.read_optional(
    os.path.dirname(vocab_file), "tokenizer_config.json"
  )
  rules = {
    name: config[key]
    for key, name in RULES.items()
    if isinstance(config.get(key), bool)
  }
  if not rules or config.get("tokenizer_class") in GENERIC:
    return content
  try:
    values = json.loads(content)
    normalizer = values["normalizer"]
    if normalizer["type"] == "BertNormalizer" and (
      normalizer.items() | rules.items() != normalizer.items()
    ):
      normalizer.update(rules)
      return json.dumps(values, ensure_ascii=False)
  except (ValueError, TypeError, KeyError):
    pass  # It is refused, or has no such rules.
  return content


def _is_same_word(word, previous):
  return word is not None and word == previous


def _valid(text):
  """Returns text with "?" for lone surrogates, which keeps offsets valid."""
  text = tokenization.convert_to_unicode(text)
  return text.encode("utf-8", "replace").decode("utf-8")


def _first_of(tokens, vocab):
  """Returns the first of the tokens in a vocabulary, by default tokens[0]."""
  return next((token for token in tokens if token in vocab), tokens[0])


def _open(vocab_file):
  # Imported here because BERT needs this package only to learn vocabularies.
  import tokenizers

  content = content_of(vocab_file)
  try:
    values = json.loads(content)
    for entry in values.get("added_tokens") or ():
      # In a text, a marker such as "[E1]" is a token, but "<s>" or "[CLS]" not.
      entry["special"] = bool(_ROLE.fullmatch(entry["content"]))
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(values))
  # The library raises Exception, or for some damaged files a Rust panic.
  except BaseException as error:
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
      raise
    raise errors.InputError(
      f"{vocab_file} is no tokenizer.json of Hugging Face's ({error}); pass "
      f"that file of the model, or {REMEDY}"
    ) from error
  # The scripts truncate and pad themselves.
  tokenizer.no_truncation()
  tokenizer.no_padding()
  # "<s>" in a text counts as three characters.
  tokenizer.encode_special_tokens = True
  return tokenizer


def _specials(vocab_file, tokenizer):
  """Returns the Specials that the file's rules add to two texts."""
  pair = tokenizer.encode("a", "b")
  # <s> a </s></s> b </s> has runs of 1, 2 and 1 special tokens.
  runs = [
    (text, [pair.tokens[n] for n in places], pair.type_ids[places[0]])
    for text, places in (
      (key, list(group))
      for key, group in itertools.groupby(
        range(len(pair)), pair.sequence_ids.__getitem__
      )
    )
  ]
  if [text for text, _, _ in runs] == [None, 0, None, 1, None]:
    (_, cls, _), (_, a, segment_a), (_, middle, _), b, (_, last, _) = runs
    if (
      len(cls) == len(last) == 1
      and set(middle) == {*last}
      and not segment_a
      and tokenizer.encode("a").tokens == cls + a + last
    ):
      return tokenization.Specials(
        cls[0], last[0], between=len(middle), segment_b=b[2]
      )
  raise errors.InputError(
    f"{vocab_file} makes {' '.join(tokenizer.encode('a').tokens)!r} of the "
    f"text 'a' and {' '.join(pair.tokens)!r} of 'a' and 'b'; only models with "
    "one special token before texts, and another one between and behind them, "
    "as '<s> a </s> </s> b </s>', can be read"
  )
