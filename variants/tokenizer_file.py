"""Tokenizes text with a tokenizer.json, the format of RoBERTa and other models.

Hugging Face's library `tokenizers` writes this file and tokenizes text with it.
The algorithm may be byte-level BPE (RoBERTa), a unigram model (XLM-R,
CamemBERT) or any other. The file also defines the special tokens around texts,
and whether text is lower-cased.
"""

import bisect
import itertools
import json
import math
import operator
import re
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import tokenization
from common import errors
from variants import vocabulary_files
from variants.word_end_pairs import UNKNOWN_FROM

if TYPE_CHECKING:
  import tokenizers

_UNKNOWN = ("<unk>", "[UNK]")
# Special tokens with a role, and CamemBERT's unused ones ("<s>NOTUSED").
_ROLE = re.compile(
  r"\[(PAD|UNK|CLS|SEP|MASK)\]|</?(s|pad|unk|mask|cls|sep)>(NOTUSED)?"
)
# Bounds of `_refuse_endless`.
_MOST_ADDED, _MOST_GROWTH = 20_000, 1000
_MASKS = ("<mask>", "[MASK]")
# Prefixes of a word's first piece: SentencePiece's (U+2581), byte-level BPE's.
_WORD_MARKS = ("▁", "Ġ")


class FileTokenizer(tokenization.FullTokenizer):
  """A FullTokenizer whose vocabulary and rules come from a tokenizer.json.

  Pieces may contain the space before a word: "▁sm" "ith" and "Ġsm" "ith" both
  mean " smith".

  Attributes:
    do_lower_case: False, because the file's rules lower-case text if needed.
    vocab_file: path of the file.
    vocab: {piece: id}; do not change it.
    inv_vocab: {id: piece}.
  """

  do_lower_case = False
  never_split = ()

  def __init__(
    self, vocab_file: str, files: vocabulary_files.VocabularyFiles | None = None
  ):
    """Loads the file, or takes what `files` has read of it.

    Raises InputError: the file is missing, invalid or unsupported (see
    `_specials`), or the tokenizer_config.json next to it is damaged.
    """
    files = files or vocabulary_files.VocabularyFiles(vocab_file)
    self._tokenizer = _open(vocab_file, files.merged_tokenizer)
    self._unknown_from = files.merged_tokenizer.get(UNKNOWN_FROM, math.inf)
    vocab = {
      piece: index
      for piece, index in self._tokenizer.get_vocab().items()
      if index < self._unknown_from
    }
    # The library's order varies between runs, but masking draws random tokens
    # by their index in `vocab`.
    ordered = sorted(vocab.items(), key=operator.itemgetter(1))
    self.vocab_file, self.vocab = vocab_file, dict(ordered)
    self.inv_vocab = {index: piece for piece, index in ordered}
    self.unk_token = _first_of(_UNKNOWN, vocab)
    mask = _first_of(_MASKS, vocab)
    self.specials = _specials(vocab_file, self._tokenizer)._replace(
      mask=mask,
      mask_strips=_strips(files.merged_tokenizer, mask),
      odd_to_longer=files.like_transformers,
    )

  def __reduce__(self) -> tuple:
    # For pickling: each worker process loads the file.
    return FileTokenizer, (self.vocab_file,)

  def tokenize(self, text: str | bytes) -> list[str]:
    """Returns the pieces of `text`; bytes are UTF-8.

    Text that no piece matches becomes `unk_token`. As in BERT's tokenizer,
    special tokens in the text, such as "<s>", are ordinary text.
    """
    return self.convert_ids_to_tokens(self.encode(text))

  def encode(self, text: str | bytes) -> list[int]:
    """Returns the ids of the pieces of `text`."""
    return self.encode_lines([text])[0]

  def encode_lines(self, lines: list[str | bytes]) -> tuple:
    """Encodes many lines; see FullTokenizer.encode_lines.

    The third result marks tokens that continue a word, see `continues` in
    pretraining.data.Corpus. The file's rules define what a word is.
    """
    encodings = self._tokenizer.encode_batch(
      list(map(_valid, lines)), add_special_tokens=False
    )
    ids = list(itertools.chain.from_iterable(map(self._known_ids, encodings)))
    continues = bytearray()
    for each in encodings:
      words = each.word_ids
      continues += bytes(map(_is_same_word, words, [None, *words]))
    return ids, list(map(len, encodings)), bytes(continues)

  def encode_words(self, words: Sequence[str]) -> list[list[int]]:
    """Tokenizes the joined words, and returns the ids of each word.

    A piece belongs to the word that contains the piece's last character.
    """
    text = _valid(" ".join(words))
    encoding = self._tokenizer.encode(text, add_special_tokens=False)
    # For "in Rome", these are [3, 8]: they include the space after each word.
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    ids_by_word: list[list[int]] = [[] for _ in words]
    ids = self._known_ids(encoding)
    for index, (start, end) in zip(ids, encoding.offsets):
      # A piece that is a single space belongs to the next word.
      position = end - 1 if text[start:end].strip() else end
      ids_by_word[bisect.bisect_right(ends, position)].append(index)
    return ids_by_word

  def joined_pieces(self, pieces: Iterable[str]) -> str:
    """Returns the text of pieces: ["Ġsm", "ith", "'"] -> "smith'"."""
    decoder, pieces = self._tokenizer.decoder, list(pieces)
    text = decoder.decode(pieces) if decoder else " ".join(pieces)
    return " ".join(text.split())

  def word_text(self, word: str) -> str:
    """Returns the text of a word's pieces; unknown characters do not change."""
    word = _valid(word)
    encoding = self._tokenizer.encode(word, add_special_tokens=False)
    unknown = self.vocab.get(self.unk_token)
    return self.joined_pieces(
      word[slice(*span)] if index == unknown else self.inv_vocab[index]
      for index, span in zip(self._known_ids(encoding), encoding.offsets)
    )

  def _known_ids(self, encoding: "tokenizers.Encoding") -> list[int]:
    """Returns the ids of pieces; those from `unknown_from` on are unknown."""
    if self._unknown_from == math.inf:
      return encoding.ids
    unknown = self.vocab[self.unk_token]
    return [n if n < self._unknown_from else unknown for n in encoding.ids]

  def find_answer(
    self, tokens: list[str], answer_text: str, before: str = ""
  ) -> tuple[int, ...] | None:
    """Returns the indices of an answer's first and last piece, or None.

    The answer "1907" alone is the piece "▁1907", but in "(1907)" it is "1907".
    So this method compares characters. The indices span all pieces that overlap
    the match nearest to the end of `before`.

    Args:
      tokens: pieces of the words that contain the answer.
      before: text of these words before the answer.
    """
    answer = "".join(self.tokenize(answer_text))
    for mark in _WORD_MARKS:
      answer = answer.removeprefix(mark)
    joined, expected = "".join(tokens), len("".join(self.tokenize(before)))
    starts = (
      [
        match.start()
        for match in re.finditer(f"(?={re.escape(answer)})", joined)
      ]
      if answer
      else []
    )
    if not starts:
      return None
    first = min(starts, key=lambda start: abs(start - expected))
    # The end of each piece in `joined`.
    ends = np.cumsum([len(token) for token in tokens])
    return tuple(
      int(np.searchsorted(ends, position, side="right"))
      for position in (first, first + len(answer) - 1)
    )


def _is_same_word(word: int | None, previous: int | None) -> bool:
  return word is not None and word == previous


def _valid(text: str | bytes) -> str:
  """Replaces lone surrogates with "?", which keeps the text's offsets valid."""
  text = tokenization.convert_to_unicode(text)
  return text.encode("utf-8", "replace").decode("utf-8")


def _first_of(tokens: Sequence[str], vocab: Container[str]) -> str:
  """Returns the first token that a vocabulary contains, or else tokens[0]."""
  return next((token for token in tokens if token in vocab), tokens[0])


def _refuse_endless(vocab_file: str, values: dict) -> None:
  """Refuses rules whose work is out of proportion to a text.

  Raises InputError: the file adds more tokens than released ones do (at most
  some thousands), or its replacements can make a text a thousand times longer.
  """
  added = values.get("added_tokens")
  if isinstance(added, list) and len(added) > _MOST_ADDED:
    raise errors.InputError(
      f"{vocab_file} has {len(added):,} added_tokens; at most {_MOST_ADDED:,} "
      "are supported: put them into the model's vocabulary"
    )
  growth = _growth(values.get("normalizer"))
  if growth > _MOST_GROWTH:
    raise errors.InputError(
      f"{vocab_file}: its normalizer's replacements can make a text {growth:,} "
      f"times longer; at most {_MOST_GROWTH:,} are supported"
    )


def _growth(rule: Any) -> int:
  """Returns the largest factor by which a normalizer can lengthen a text."""
  if not isinstance(rule, dict):
    return 1
  if rule.get("type") == "Sequence":
    parts = rule.get("normalizers")
    growths = map(_growth, parts if isinstance(parts, list) else ())
    return math.prod(growths)
  pattern, content = rule.get("pattern"), rule.get("content")
  if rule.get("type") != "Replace" or not isinstance(content, str):
    return 1
  text = pattern.get("String") if isinstance(pattern, dict) else None
  # A regular expression may match one character, or between two.
  if not isinstance(text, str) or not text:
    return len(content) + 1
  return max(1, -(-len(content) // len(text)))


def _open(vocab_file: str, values: dict[str, Any]) -> "tokenizers.Tokenizer":
  """Returns the library's tokenizer for the entries of a tokenizer.json."""
  # Imported here because BERT's tokenizer does not need this package.
  import tokenizers

  _refuse_endless(vocab_file, values)
  try:
    # A marker such as "[E1]" in a text is one token; "<s>" or "[CLS]" is not.
    added = [
      {**entry, "special": bool(_ROLE.fullmatch(entry["content"]))}
      for entry in values.get("added_tokens") or ()
    ]
    # Only this module knows the key.
    values = {name: v for name, v in values.items() if name != UNKNOWN_FROM}
    text = json.dumps({**values, "added_tokens": added})
    tokenizer = tokenizers.Tokenizer.from_str(text)
  # For some damaged files, the library raises a Rust panic, a BaseException.
  except BaseException as error:
    if isinstance(error, (KeyboardInterrupt, SystemExit)):
      raise
    raise errors.InputError(
      f"{vocab_file} is not a tokenizer.json of Hugging Face ({error}); pass "
      f"the model's tokenizer.json, or {vocabulary_files.REMEDY}"
    ) from error
  # The scripts truncate and pad sequences themselves.
  tokenizer.no_truncation()
  tokenizer.no_padding()
  # Treat "<s>" in a text as three characters, not as one special token.
  tokenizer.encode_special_tokens = True
  return tokenizer


def _strips(values: dict[str, Any], token: str) -> tuple[bool, bool]:
  """Returns whether a token includes the white space before and after it."""
  for entry in values.get("added_tokens") or ():
    if entry["content"] == token:
      return bool(entry.get("lstrip")), bool(entry.get("rstrip"))
  return tokenization.BERTS.mask_strips


def _specials(
  vocab_file: str, tokenizer: "tokenizers.Tokenizer"
) -> tokenization.Specials:
  """Returns the special tokens that the file's rules put around two texts."""
  pair = tokenizer.encode("a", "b")
  # <s> a </s></s> b </s> has runs of 1, 2 and 1 special tokens.
  runs = [
    (text, [pair.tokens[n] for n in indices], pair.type_ids[indices[0]])
    for text, indices in (
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
    f"{vocab_file} turns 'a' into {' '.join(tokenizer.encode('a').tokens)!r} "
    f"and the pair 'a', 'b' into {' '.join(pair.tokens)!r}; this project "
    "supports only one special token before the texts and another between and "
    "after them, as in '<s> a </s> </s> b </s>'"
  )
