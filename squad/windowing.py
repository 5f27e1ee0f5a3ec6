"""Questions -> windows: passages that are too long are read in several.

Each window begins `doc_stride` pieces after the one before it. A piece that
is in several windows counts in the one that shows most of its context.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import tokenization
from common import errors, process_pool
from squad import dataset
from text import input_sequences
from variants import sentencepiece

# As in the original: where numbers of windows begin.
FIRST_UNIQUE_ID = 1000000000
SPECIAL_TOKENS = 3  # [CLS] and two [SEP].
_BLOCK = 256  # Passages that a process takes at once.


class Lengths(NamedTuple):
  """How passages are cut, in word pieces.

  Attributes:
    max_seq_length: longest input, with [CLS] and twice [SEP].
    doc_stride: from the beginning of one window to that of the next.
    max_query_length: a longer question is cut to this many pieces.
  """

  max_seq_length: int
  doc_stride: int
  max_query_length: int


def check_lengths(lengths: Lengths) -> None:
  """Raises InputError for lengths that leave no room for a passage."""
  least = lengths.max_query_length + SPECIAL_TOKENS
  if lengths.max_seq_length <= least:
    raise errors.InputError(
      f"--max_seq_length={lengths.max_seq_length} leaves no room for the "
      f"passage next to a question of --max_query_length="
      f"{lengths.max_query_length} and {SPECIAL_TOKENS} special tokens; pass "
      f"more than {least}, or a shorter --max_query_length"
    )


def encode_passages(
  passages: list, tokenizer: tokenization.FullTokenizer
) -> list:
  """Encodes lists of words; what workers do, so it returns no strings.

  Returns:
    List of (ids int32 [n], number of pieces of each word int32 [m]).
  """
  encoded = []
  for words in passages:
    pieces = [tokenizer.encode(word) for word in words]
    ids = list(itertools.chain.from_iterable(pieces))
    encoded.append(
      (np.array(ids, np.int32), np.array(list(map(len, pieces)), np.int32))
    )
  return encoded


def make_passages(
  questions: list,
  tokenizer: tokenization.FullTokenizer,
  *,
  processes: int = 1,
) -> dict[int, dataset.Passage]:
  """Returns the passages of questions, by Question.passage."""
  # Several questions are about one passage: it is tokenized once.
  words = {question.passage: question.doc_tokens for question in questions}
  texts = list(words.values())
  blocks = (
    texts[start : start + _BLOCK] for start in range(0, len(texts), _BLOCK)
  )
  encoded = itertools.chain.from_iterable(
    process_pool.in_order(
      functools.partial(encode_passages, tokenizer=tokenizer),
      blocks,
      processes=processes,
    )
  )
  return {
    number: dataset.Passage(
      # Made here from the ids: workers would have to pickle every string.
      tokens=tokenizer.convert_ids_to_tokens(ids.tolist()),
      ids=ids,
      words=np.repeat(np.arange(len(counts), dtype=np.int32), counts),  # [n]
      first_pieces=np.cumsum(counts, dtype=np.int32) - counts,  # [m]
    )
    for number, (ids, counts) in zip(words, encoded)
  }


@functools.lru_cache(maxsize=1 << 12)
def make_spans(num_pieces: int, room: int, stride: int) -> tuple:
  """Cuts a passage of n pieces into windows.

  Args:
    num_pieces: n.
    room: how many a window holds.
    stride: pieces from one window to the next.

  Returns:
    Tuple of (start, length, is_max_context bool [length]), none for n = 0.
  """
  if not num_pieces:
    return ()
  starts = input_sequences.window_starts(num_pieces, room, stride)
  spans = [(start, min(num_pieces - start, room)) for start in starts]
  # Ten pieces in windows of six, stride 4: pieces 0 to 5 and 4 to 9. Piece 4
  # has one piece to its right in the first window and none to its left in the
  # second, so it counts in the first; piece 5 in the second.
  best = np.full(num_pieces, -np.inf)  # [n]
  best_span = np.zeros(num_pieces, np.int32)
  for number, (start, length) in enumerate(spans):
    # As in the original: a piece is worth its distance to the nearer end of the
    # window. A hundredth of the length only decides between equals, for the
    # longer window; of windows still equal the first one counts, hence ">".
    # The slices of `best` are views, so these assignments reach the arrays.
    left = np.arange(length)
    score = np.minimum(left, left[::-1]) + 0.01 * length
    inside = slice(start, start + length)
    is_better = score > best[inside]
    best[inside][is_better] = score[is_better]
    best_span[inside][is_better] = number
  return tuple(
    (start, length, best_span[start : start + length] == number)
    for number, (start, length) in enumerate(spans)
  )


def find_answer(
  question,
  passage: dataset.Passage,
  tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int]:
  """Returns the first and last piece of a training question's answer.

  The words of an answer may hold more than it: "(1907-1988)." is one word of
  seven pieces, and "1907" the second of them. The answer is the first place
  among the pieces of its words that has the answer's own pieces.
  As in the original: without such a place ("Finn" in "Finnish"), all pieces of
  the words.

  Args:
    question: dataset.Question with an answer.
    passage: its own.
    tokenizer: the model's.
  """
  start = int(passage.first_pieces[question.start_position])
  end = len(passage.tokens) - 1
  if question.end_position + 1 < len(question.doc_tokens):
    end = int(passage.first_pieces[question.end_position + 1]) - 1
  if isinstance(tokenizer, sentencepiece.SentencePieceTokenizer):
    found = tokenizer.find_answer(
      passage.tokens[start : end + 1], question.answer_text
    )
    return (start + found[0], start + found[1]) if found else (start, end)
  answer = tokenizer.tokenize(question.answer_text)
  size = len(answer)
  # An answer without pieces (only control characters) would match anywhere.
  for place in range(start, end - size + 2) if size else ():
    if passage.tokens[place : place + size] == answer:
      return place, place + size - 1
  return start, end


def make_windows(
  questions: list,
  tokenizer: tokenization.FullTokenizer,
  lengths: Lengths,
  *,
  training: bool = False,
  processes: int = 1,
) -> Iterator[dataset.Window]:
  """Yields the windows of questions, a question's one after another.

  A question about a passage without word pieces has no window.

  Args:
    training: whether to say where the answers are.
    processes: how many tokenize the passages.

  Raises:
    InputError: `lengths` leave no room for a passage.
  """
  check_lengths(lengths)
  passages = make_passages(questions, tokenizer, processes=processes)
  unique_id = FIRST_UNIQUE_ID
  for index, question in enumerate(questions):
    passage, answer = passages[question.passage], None
    # Found once in the passage, then moved into each window that holds it.
    if training and not question.is_impossible and passage.tokens:
      answer = find_answer(question, passage, tokenizer)
    for window in _windows_of(question, passage, tokenizer, lengths):
      # As in the original: numbered in order, over all questions.
      window = window._replace(unique_id=unique_id, question_index=index)
      yield _with_answer(window, answer) if training else window
      unique_id += 1


def _windows_of(question, passage, tokenizer, lengths):
  """Yields the windows of one question, not yet numbered."""
  tokens = tokenizer.tokenize(question.question_text)
  tokens = tokens[: lengths.max_query_length]
  ids = np.array(tokenizer.convert_tokens_to_ids(tokens), np.int32)
  room = lengths.max_seq_length - len(tokens) - SPECIAL_TOKENS
  spans = make_spans(len(passage.tokens), room, lengths.doc_stride)
  for number, (start, length, is_max_context) in enumerate(spans):
    yield dataset.Window(
      unique_id=0,
      question_index=0,
      doc_span_index=number,
      question_tokens=tokens,
      question_ids=ids,
      passage=passage,
      start=start,
      length=length,
      is_max_context=is_max_context,
      is_impossible=question.is_impossible,
    )


def _with_answer(window, answer):
  """Puts the answer's pieces in, or 0 and 0 if not all are in the window."""
  # Before every window, so that no window has an answer.
  first, last = answer or (-1, -1)
  # As in the original: half an answer is none.
  if first < window.start or last >= window.start + window.length:
    return window._replace(start_position=0, end_position=0)
  shift = window.first_position - window.start
  return window._replace(
    start_position=first + shift, end_position=last + shift
  )
