"""Windows of passages, against those of the original."""

import functools
import gzip
import pathlib

import numpy as np
import pytest

import tokenization
from common import errors
from squad import dataset, windowing

GOLDEN = pathlib.Path(__file__).parent / "golden"
WINDOWS = GOLDEN / "squad" / "windows"
RUNS = {
  # Lengths, vocabulary, training.
  "odd_eval": ((100, 40, 20), "uncased", False),
  "xquad_ar_train": ((256, 64, 24), "multi_cased", True),
  "xquad_tr_train": ((256, 128, 24), "multi_cased", True),
  "xquad_zh_train": ((256, 64, 24), "multi_cased", True),
}


@pytest.fixture(scope="module")
def make(tmp_path_factory):
  """A function: (questions file, RUNS row) -> its windows."""
  folder = tmp_path_factory.mktemp("squad")

  @functools.cache
  def tokenizer(name):
    packed = GOLDEN / "tokenization" / f"{name}_vocab.txt.gz"
    path = folder / name
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return tokenization.FullTokenizer(str(path), name == "uncased")

  def make_windows(stem, lengths, vocabulary, training):
    path = WINDOWS / f"{stem}.json"
    if not path.exists():
      packed = (WINDOWS / f"{stem}.json.gz").read_bytes()
      path = folder / f"{stem}.json"
      path.write_bytes(gzip.decompress(packed))
    file = dataset.read(str(path), training=training)
    lengths = windowing.Lengths(*lengths)
    return tokenizer(vocabulary), list(
      windowing.make_windows(
        file.questions, tokenizer(vocabulary), lengths, training=training
      )
    )

  return make_windows


@pytest.mark.parametrize("name", RUNS)
def test_every_field_is_the_originals(make, name):
  lengths, vocabulary, training = RUNS[name]
  stem = name.rpartition("_")[0]
  tokenizer, windows = make(stem, lengths, vocabulary, training)
  golden = np.load(WINDOWS / f"{name}.npz")
  assert len(windows) == len(golden["input_ids"])
  rows = zip(golden["input_ids"], golden["input_mask"], golden["words"],
             golden["max_context"], strict=True)
  for window, (ids, mask, words, is_max) in zip(windows, rows, strict=True):
    assert window.num_tokens == len(window.tokens) == mask.sum()
    assert tokenizer.convert_tokens_to_ids(window.tokens) == (
      ids[: window.num_tokens].tolist()
    )
    assert window.token_to_orig_map == {
      place: word for place, word in enumerate(words.tolist()) if word >= 0
    }
    assert window.token_is_max_context == {
      place: bool(is_max[place]) for place in window.token_to_orig_map
    }
    assert window.passage.ids.tolist() == tokenizer.convert_tokens_to_ids(
      window.passage.tokens
    )
  fields = {
    "unique_id": "unique_id", "question_index": "example_index",
    "doc_span_index": "doc_span_index",
  }
  if training:
    fields |= {
      name: name for name in ("start_position", "end_position", "is_impossible")
    }
  for ours, theirs in fields.items():
    values = [getattr(window, ours) for window in windows]
    np.testing.assert_array_equal(values, golden[theirs], ours)


def test_outside_training_there_are_no_positions(make):
  _, windows = make("odd", *RUNS["odd_eval"])
  assert {w.start_position for w in windows} == {None}
  # One passage, tokenized once.
  assert windows[0].passage is windows[-40].passage


@pytest.mark.parametrize(
  "num_pieces, room, stride, spans",
  [
    (0, 4, 2, []),
    (4, 4, 2, [(0, 4)]),
    (5, 4, 2, [(0, 4), (2, 3)]),
    (9, 4, 9, [(0, 4), (4, 4), (8, 1)]),
    (6, 3, 1, [(0, 3), (1, 3), (2, 3), (3, 3)]),
  ],
)
def test_spans_cover_the_passage(num_pieces, room, stride, spans):
  found = windowing.make_spans(num_pieces, room, stride)
  assert [span[:2] for span in found] == spans
  counts = np.zeros(num_pieces, int)
  for start, length, is_max_context in found:
    counts[start : start + length] += is_max_context
  # Each piece counts in one window, and in one alone.
  assert (counts == 1).all()


def test_a_piece_counts_where_most_of_its_surroundings_are():
  (_, _, first), (_, _, second) = windowing.make_spans(7, 5, 2)
  # Pieces 2 to 4 are in both; 3 has 1 to the right there, 1 to the left
  # here: the first of equals.
  assert first.tolist() == [True, True, True, True, False]
  assert second.tolist() == [False, False, True, True, True]


def test_a_passage_without_pieces_has_no_window(make):
  tokenizer, _ = make("odd", *RUNS["odd_eval"])
  questions = dataset.from_texts([("Who?", "\u200b"), ("Who?", "I.")])
  lengths = windowing.Lengths(20, 5, 8)
  (window,) = windowing.make_windows(questions, tokenizer, lengths)
  assert window.question_index == 1
  assert window.tokens == ["[CLS]", "who", "?", "[SEP]", "i", ".", "[SEP]"]


def test_half_an_answer_is_none(make):
  tokenizer, _ = make("odd", *RUNS["odd_eval"])
  words = "one two three four five".split()
  question = dataset.Question(
    "a", "a", words, start_position=2, end_position=3, answer_text="three four"
  )
  # Of three words each: the first ends within the answer.
  windows = windowing.make_windows(
    [question], tokenizer, windowing.Lengths(7, 1, 1), training=True
  )
  found = [(w.tokens[w.start_position], w.start) for w in windows]
  assert found == [("[CLS]", 0), ("three", 1), ("three", 2)]


def test_processes_change_nothing(make):
  tokenizer, _ = make("odd", *RUNS["odd_eval"])
  questions = dataset.from_texts(
    [("Who?", f"it was number {number} of\u00a0many") for number in range(600)]
  )
  lengths = windowing.Lengths(14, 2, 4)

  def contents(processes):
    windows = windowing.make_windows(
      questions, tokenizer, lengths, processes=processes
    )
    return [(w.unique_id, w.tokens, w.token_to_orig_map) for w in windows]

  assert contents(2) == contents(1)


def test_too_little_room_is_refused_in_one_sentence():
  with pytest.raises(errors.InputError, match="pass more than 67, or a shor"):
    windowing.check_lengths(windowing.Lengths(67, 128, 64))
  windowing.check_lengths(windowing.Lengths(68, 128, 64))
