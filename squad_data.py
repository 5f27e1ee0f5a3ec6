"""SQuAD: what a question, a passage and a window of it are.

A passage is tokenized once, however many questions are asked about it, and a
window refers to it: the features of 10,000 questions are a few megabytes.
"""

from typing import NamedTuple, Optional

import numpy as np


class Question(NamedTuple):
  """A question about a passage.

  Attributes:
    qas_id: the question's id in the file, a str.
    question_text: str.
    doc_tokens: the passage cut at white space, a list of str that all
      questions about the passage share.
    answer_text: the answer to train on; "" if there is none, None outside
      training.
    start_position, end_position: the first and last of `doc_tokens` that it
      touches; -1 if there is no answer, None outside training.
    is_impossible: whether the passage does not tell; always False without
      version_2_with_negative.
    answers: tuple of all answers in the file, each a str: what predictions
      are scored against.
    passage: number of the passage in the file, from 0.
    place: file and id of the question, for errors.
  """

  qas_id: str
  question_text: str
  doc_tokens: list
  answer_text: Optional[str] = None
  start_position: Optional[int] = None
  end_position: Optional[int] = None
  is_impossible: bool = False
  answers: tuple = ()
  passage: int = 0
  place: str = ""


class Passage(NamedTuple):
  """The word pieces of a passage: n pieces of m words (`doc_tokens`).

  Attributes:
    tokens: list of n str.
    ids: int32 [n].
    words: int32 [n], the number of the word that each piece is of.
    first_pieces: int32 [m], where each word's pieces begin.
  """

  tokens: list
  ids: np.ndarray
  words: np.ndarray
  first_pieces: np.ndarray


class Window(NamedTuple):
  """One input of the model: a question and k pieces of its passage.

      [CLS] question pieces [SEP] passage pieces [SEP]
                                  ^ first_position

  Attributes:
    unique_id: number of the window, from 1000000000 on.
    question_index: number of the question in the list of questions.
    doc_span_index: number of the window among those of the question.
    question_tokens: list of str, cut to max_query_length; shared.
    question_ids: their ids, int32; shared.
    passage: Passage; shared.
    start, length: which pieces of the passage are in it: `length` = k from
      `start` on.
    is_max_context: bool [k]: whether no other window of the question shows
      more of what is around the piece.
    start_position, end_position: of the answer, in the input; 0 if it is not
      in this window, None outside training.
    is_impossible: that of the question.
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
  start_position: Optional[int] = None
  end_position: Optional[int] = None
  is_impossible: bool = False

  @property
  def first_position(self):
    """Where the pieces of the passage begin in the input."""
    return len(self.question_tokens) + 2

  @property
  def num_tokens(self):
    """How many tokens the input has, without padding."""
    return self.first_position + self.length + 1

  @property
  def words(self):
    """The word (of `doc_tokens`) of each piece of the passage, int32 [k]."""
    return self.passage.words[self.start : self.start + self.length]

  @property
  def tokens(self):
    """All tokens of the input, a list of `num_tokens` str."""
    pieces = self.passage.tokens[self.start : self.start + self.length]
    return ["[CLS]", *self.question_tokens, "[SEP]", *pieces, "[SEP]"]

  @property
  def token_to_orig_map(self):
    """As in the original: dict from position in the input to word."""
    return dict(enumerate(self.words.tolist(), self.first_position))

  @property
  def token_is_max_context(self):
    """As in the original: dict from position in the input to bool."""
    return dict(enumerate(self.is_max_context.tolist(), self.first_position))
