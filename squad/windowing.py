"""Splits passages into windows, adds the questions, and makes batches.

A passage that is too long gets several windows; each window begins `doc_stride`
pieces (at most a window's length) after the previous one. All questions and
windows of a passage share its tokens, so the windows of 10,000 questions need
only a few megabytes. No TensorFlow.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import tokenization
from common import errors, run_settings
from squad import alignment, data
from text import cut_texts, input_sequences
from variants import tokenizer_file

# As in the original: the first unique id.
FIRST_UNIQUE_ID = 1000000000


class Lengths(NamedTuple):
  """The lengths of windows in word pieces, named like the flags."""

  max_seq_length: int  # Longest input, including the special tokens.
  doc_stride: int  # Maximum distance between the starts of windows.
  max_query_length: int  # A longer question is cut to this many pieces.


def lengths_of(
  settings: run_settings.Settings, specials: tokenization.Specials
) -> Lengths:
  """Returns the Lengths in a script's settings.

  Raises InputError: the lengths leave no room for a passage.
  """
  lengths = Lengths(**settings.pick(Lengths._fields))
  special = 2 + specials.between
  overhead = lengths.max_query_length + special
  if lengths.max_seq_length <= overhead:
    raise errors.InputError(
      f"--max_seq_length={lengths.max_seq_length} leaves no room for the "
      f"passage next to a question of --max_query_length="
      f"{lengths.max_query_length} and {special} special tokens; pass "
      f"more than {overhead}, or a smaller --max_query_length"
    )
  return lengths


class Passage(NamedTuple):
  """The n word pieces of a passage.

  Attributes:
    tokens: list of n str.
    ids: int32 [n].
    words: int32 [n], the index of each piece's word, ascending.
  """

  tokens: list
  ids: np.ndarray
  words: np.ndarray


class Window(NamedTuple):
  """One input of the model: a question and k pieces of its passage.

      [CLS] question pieces [SEP] passage pieces [SEP]
                                  ^ first_position

  Attributes:
    unique_id: number of the window, counted from 1000000000.
    question_index: index of the question in the list of questions.
    doc_span_index: index of the window among the question's windows.
    question_tokens, question_ids: at most max_query_length pieces, shared by
      the question's windows.
    passage: the Passage, shared by its windows.
    start, length: the window has k = length pieces of the passage from `start`.
    is_max_context: bool [k], whether a piece has the most context in this
      window; of equally good windows, the first counts.
    start_position, end_position: the answer's positions in the input; 0 if the
      window lacks the answer, None outside training.
    is_impossible: see Question.
    specials: the tokenizer's Specials.
  """

  unique_id: int
  question_index: int
  doc_span_index: int
  question_tokens: list
  question_ids: np.ndarray
  passage: Passage
  start: int
  length: int
  is_max_context: np.ndarray
  start_position: int | None = None
  end_position: int | None = None
  is_impossible: bool = False
  specials: tokenization.Specials = tokenization.BERTS

  @property
  def first_position(self) -> int:
    """The position in the input of the window's first piece of the passage."""
    return len(self.question_tokens) + 1 + self.specials.between

  @property
  def num_tokens(self) -> int:
    """The number of tokens in the input, without padding."""
    return self.first_position + self.length + 1

  @property
  def tokens(self) -> list[str]:
    """The input's tokens, a list of `num_tokens` str."""
    pieces = self.passage.tokens[self.start : self.start + self.length]
    cls, sep = self.specials.cls, self.specials.sep
    between = [sep] * self.specials.between
    return [cls, *self.question_tokens, *between, *pieces, sep]


def make_passages(
  questions: list, tokenizer: tokenization.FullTokenizer
) -> dict[int, Passage]:
  """Returns {Question.passage: Passage} for the passages of all questions."""
  words = {question.passage: question.doc_tokens for question in questions}
  passages = {}
  for number, text in words.items():
    pieces = tokenizer.encode_words(text)
    counts = list(map(len, pieces))
    ids = list(itertools.chain.from_iterable(pieces))
    passages[number] = Passage(
      tokenizer.convert_ids_to_tokens(ids),
      np.array(ids, np.int32),
      words=np.repeat(np.arange(len(counts), dtype=np.int32), counts),  # [n]
    )
  return passages


@functools.lru_cache(maxsize=1 << 12)
def cut_passage(num_pieces: int, room: int, stride: int) -> tuple:
  """Splits a passage of n pieces into windows of at most `room` pieces.

  Returns:
    A tuple (start, length, is_max_context bool [length]) for each window.
  """
  if not num_pieces:
    return ()
  starts = input_sequences.window_starts(num_pieces, room, stride)
  spans = [(start, min(num_pieces - start, room)) for start in starts]
  # Example: ten pieces, windows of six pieces, stride 4. The windows have the
  # pieces 0 to 5 and 4 to 9. Piece 4 has neighbours on both sides only in the
  # first window, so it has the most context there. For piece 5, the second
  # window has the most context.
  best = np.full(num_pieces, -np.inf)  # [n]
  best_span = np.zeros(num_pieces, np.int32)
  for number, (start, length) in enumerate(spans):
    # As in the original: a piece's score is its distance to the nearer end of
    # the window. For equal distances, a hundredth of the length prefers the
    # longer window, and ">" the first of equally long windows.
    # The slices are views, so the assignments change the arrays.
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
  question: data.Question,
  passage: Passage,
  tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int]:
  """Returns the indices of the first and last piece of a question's answer.

  The answer's words may have more pieces than the answer: "(1907-1988)." is one
  word of six pieces, and "1907" is the second piece. So this function looks
  for the answer's pieces in the pieces of the words.
  Unlike the original: of several matches, it takes the nearest to answer_start,
  not the first. Without a match, as for "Finn" in "Finnish", it takes the
  pieces that have a character of the answer, not all pieces of the words: in
  Chinese and Thai, which have no spaces, a word may be a whole passage.
  """
  # The first word's pieces begin at `start`; the last word's end before `end`.
  start, end = np.searchsorted(
    passage.words, [question.start_position, question.end_position + 1]
  ).tolist()
  end -= 1
  if isinstance(tokenizer, tokenizer_file.FileTokenizer):
    match = tokenizer.find_answer(
      passage.tokens[start : end + 1],
      question.answer_text,
      question.before_answer,
    )
    return (start + match[0], start + match[1]) if match else (start, end)
  answer = tokenizer.tokenize(question.answer_text)
  size = len(answer)
  # An answer without pieces, such as a control character, would match anywhere.
  matches = [
    match
    for match in (range(start, end - size + 2) if size else ())
    if passage.tokens[match : match + size] == answer
  ]
  if len(matches) != 1:
    touched = _pieces_of_answer(question, tokenizer) or (0, end - start)
    first, last = (start + number for number in touched)
    if not matches:
      return first, last
    matches.sort(key=lambda match: abs(match - first))
  return matches[0], matches[0] + size - 1


def _pieces_of_answer(
  question: data.Question, tokenizer: tokenization.FullTokenizer
) -> tuple[int, int] | None:
  """Returns the indices of the first and last piece that touch the answer.

  They are relative to the first piece of the answer's words. Returns None if
  no piece is known to have a character of the answer.
  """
  words = question.doc_tokens[
    question.start_position : question.end_position + 1
  ]
  word_indices = [
    index for index, word in enumerate(words) for _ in tokenizer.tokenize(word)
  ]
  # Exclude white space, because the text may have more than single spaces.
  start = len("".join(question.before_answer.split()))
  end = start + len("".join(question.answer_text.split()))
  finder = alignment.PieceFinder(words, word_indices, tokenizer)
  touched = []
  for piece, word_index in enumerate(word_indices):
    match = finder.find(piece, piece)
    if not match:
      return None
    # Subtract the spaces before this word, one for each earlier word.
    first, last = (position - word_index for position in match[1])
    if first < end and last > start:
      touched.append(piece)
  return (touched[0], touched[-1]) if touched else None


def make_windows(
  questions: list,
  tokenizer: tokenization.FullTokenizer,
  lengths: Lengths,
  *,
  training: bool = False,
  cut: cut_texts.CutTexts | None = None,
) -> Iterator[Window]:
  """Yields the windows of all questions, in the order of the questions.

  A question about a passage without word pieces has no window. `cut` counts the
  questions, and those longer than max_query_length.
  """
  passages = make_passages(questions, tokenizer)
  # As in the original: ids count windows in order, over all questions.
  unique_ids = itertools.count(FIRST_UNIQUE_ID)
  for index, question in enumerate(questions):
    passage, answer = passages[question.passage], None
    # Find the answer in the passage once; `_with_answer` adds a window's shift.
    if training and not question.is_impossible and passage.tokens:
      answer = find_answer(question, passage, tokenizer)
    tokens = tokenizer.tokenize(question.question_text)
    if cut:
      cut.add(len(tokens) > lengths.max_query_length)
    tokens = tokens[: lengths.max_query_length]
    ids = np.array(tokenizer.convert_tokens_to_ids(tokens), np.int32)
    room = tokenizer.frame.room(lengths.max_seq_length) - len(tokens)
    cuts = cut_passage(len(passage.tokens), room, lengths.doc_stride)
    for number, (start, length, is_max_context) in enumerate(cuts):
      window = Window(
        next(unique_ids),
        index,
        number,
        tokens,
        ids,
        passage,
        start,
        length,
        is_max_context,
        is_impossible=question.is_impossible,
        specials=tokenizer.specials,
      )
      yield _with_answer(window, answer) if training else window


def _with_answer(window: Window, answer: tuple[int, int] | None) -> Window:
  """Returns the window with answer positions, 0 if it lacks a part of it."""
  # Without an answer, -1 lies before every window.
  first, last = answer or (-1, -1)
  # As in the original: a window with only a part of the answer has no answer.
  if first < window.start or last >= window.start + window.length:
    return window._replace(start_position=0, end_position=0)
  shift = window.first_position - window.start
  return window._replace(
    start_position=first + shift, end_position=last + shift
  )


def make_batch(
  windows: list,
  tokenizer: tokenization.FullTokenizer,
  max_seq_length: int,
  *,
  training: bool = False,
) -> dict[str, np.ndarray]:
  """Returns the features of B windows: {name: int32 array}.

  They are input_ids, input_mask and segment_ids [B, T] and unique_ids [B, 1];
  in training also start_positions, end_positions and is_impossible [B, 1].
  """
  segments: list[np.ndarray] = []
  for w in windows:
    segments += [w.question_ids, w.passage.ids[w.start : w.start + w.length]]
  lengths = np.array([len(ids) for ids in segments])
  starts = np.cumsum(lengths) - lengths
  spans = input_sequences.Spans(
    starts[::2], lengths[::2], starts[1::2], lengths[1::2]
  )
  batch = input_sequences.fill_batch(
    np.concatenate(segments), spans, max_seq_length, tokenizer.frame
  )
  columns = {"unique_ids": "unique_id"}
  if training:
    columns.update(
      start_positions="start_position",
      end_positions="end_position",
      is_impossible="is_impossible",
    )
  for name, field in columns.items():
    # [B, 1], the shape in the records.
    batch[name] = np.array([[getattr(w, field)] for w in windows], np.int32)
  return batch
