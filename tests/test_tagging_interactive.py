"""Tests of sentences that are tagged as they come."""

import io
import json

import pytest
import tensorflow as tf

import tokenization
from tagging import interactive, text_tagger

LABELS = ["O", "B-X"]


def tag(sentences):
  """Labels words that start with a capital; notes how much came at once."""
  tag.calls.append([sentence.words for sentence in sentences])
  return [[LABELS[w[0].isupper()] for w in s.words] for s in sentences]


def answer(source, answers):
  """Returns what a stream is answered, and the words of each call of `tag`."""
  tag.calls, target = [], io.StringIO()
  bad = interactive.tag_stream(
    source, target, tag, answers=answers, batch_size=1
  )
  return target.getvalue(), tag.calls, bad


COLUMNS = [b"-DOCSTART- -\n", b"\n", b"a x\n", "Zürich y\n".encode(), b"\n",
           b"B x\n", b"-DOCSTART- -\n", b"c x"]
TAGGED = ("-DOCSTART- - O\n\na x O\nZürich y B-X\n\nB x B-X\n-DOCSTART- - O\n"
          "c x O\n")


@pytest.mark.parametrize(
  "document_context, calls",
  [(False, [[["a", "Zürich"]], [["B"]], [["c"]]]),
   (True, [[["a", "Zürich"], ["B"]], [["c"]]])],
)
def test_columns_are_answered_where_a_sentence_or_document_ends(
  document_context, calls
):
  answers = interactive.ColumnAnswers(0, document_context=document_context)
  assert answer(COLUMNS, answers) == (TAGGED, calls, 0)


@pytest.mark.parametrize("document_context", [False, True])
def test_raw_sentences_are_answered_by_their_words(document_context):
  answers = interactive.ColumnAnswers(
    0, document_context=document_context, is_text=True
  )
  out, calls, bad = answer(
    [b"Anna's in Bern.\n", b" \n", b"\xff\n", "Z\u4e2d b\n".encode()], answers
  )
  rows = ["Anna B-X", "' O", "s O", "in O", "Bern B-X", ". O", ""]
  empty, undecodable = "error\tstandard input:2: this line: an", "error\tstan"
  found = out.split("\n")
  assert found[:7] == rows and found[11:] == ["Z B-X", "中 O", "b O", "", ""]
  assert found[7].startswith(empty) and found[9].startswith(undecodable)
  assert bad == 2 and sum(map(len, calls)) == 2


def test_a_raw_sentence_among_columns_is_pointed_out(caplog):
  answers = interactive.ColumnAnswers(0, document_context=False)
  answer([b"Anna lives in Bern.\n"], answers)
  assert "'Anna lives in Bern.' counts as one word, the first" in caplog.text
  caplog.clear()
  answers = interactive.ColumnAnswers(0, document_context=False)
  answer([b"Anna x\n", b"lives x\n", b"\n", b"Yes x\n"], answers)
  assert not caplog.records


def test_a_sentence_is_answered_before_the_next_one_comes():
  target, seen = io.StringIO(), []

  def source():
    yield from (b"A\n", b"\n")
    while not target.getvalue():  # Deadlocks unless the answer comes first.
      pass
    seen.append(target.getvalue())
    yield b"b\n"

  tag.calls = []
  interactive.tag_stream(
    source(), target, tag, batch_size=1,
    answers=interactive.ColumnAnswers(0, document_context=False),
  )
  assert seen == ["A B-X\n\n"]
  assert target.getvalue() == "A B-X\n\nb O\n"


@pytest.mark.parametrize("document_context", [False, True])
def test_sentences_that_cannot_be_read_stop_no_other(document_context):
  """Not UTF-8; columns that vary; other columns than the first sentence."""
  lines = b"A x\n\nb x\n\xff\n\nB x\nc\n\nC\n\nD x\n".splitlines(True)
  answers = interactive.ColumnAnswers(0, document_context=document_context)
  out, _, bad = answer(lines, answers)
  first, *found, last, end = out.split("\n\n") + [""]
  assert (first, last, end, bad) == ("A x B-X", "D x B-X\n", "", 3)
  for number, fault, line in zip(
    (4, 7, 9), ("not UTF-8", "1 columns, but line 6", "1 columns"), found
  ):
    assert line.startswith(f"error\tstandard input:{number}: {fault}")


@pytest.mark.parametrize(
  "document_context, calls",
  [(False, [[["A"]], [["b"]], [["C", "d"]]]),
   (True, [[["A"], ["b"]], [["C", "d"]]])],
)
def test_json_lines_and_what_is_wrong_with_them(document_context, calls):
  objects = [
    {"words": ["A"], "document": 1}, {"words": ["b"], "document": 1},
    {"words": ["C", "d"], "document": 2},
  ]
  lines = [json.dumps(values).encode() + b"\n" for values in objects]
  lines[1:1] = [b"\n", b"{}\n"]
  answers = interactive.JsonAnswers(document_context=document_context)
  out, found, bad = answer(lines, answers)
  assert (found, bad) == (calls, 2)
  first, empty, error, *others = map(json.loads, out.splitlines())
  assert "line 2: an empty text" in empty["error"]
  assert error["error"].startswith("line 3: no list of words")
  assert [first, *others] == [
    {**values, "predicted": labels}
    for values, labels in zip(objects, [["B-X"], ["O"], ["B-X", "O"]])
  ]


def test_batches_do_not_change_a_label(tmp_path):
  vocab = tmp_path / "vocab.txt"
  vocab.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
  tokenizer = tokenization.FullTokenizer(str(vocab))

  def model(batch):
    """The label of a position is whether its piece is "b"."""
    assert set(batch) == {"input_ids", "input_mask", "segment_ids"}
    return tf.one_hot(tf.cast(batch["input_ids"] == 5, tf.int32), 2)

  tagger = text_tagger.SentenceTagger(
    model, tokenizer, LABELS, batch_size=2, max_seq_length=5
  )
  answers = interactive.ColumnAnswers(0, document_context=False)
  words = "a b b a a b b\n\nb\n\na b b".replace(" ", "\n").split("\n")
  target = io.StringIO()
  interactive.tag_stream(
    [f"{word}\n".encode() for word in words], target, tagger.tag,
    answers=answers, batch_size=100,
  )
  expected = [w and f"{w} {LABELS[w == 'b']}" for w in words]
  assert target.getvalue().splitlines() == expected
