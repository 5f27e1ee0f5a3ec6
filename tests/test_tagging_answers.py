"""Sentences that are tagged as they come, and the words of texts."""

import io
import json

import pytest
import tensorflow as tf

import tiny_model
import tokenization
from tagging import answers, text_spans

LABELS = ["O", "B-X"]


def tag(sentences):
  tag.calls.append([sentence.words for sentence in sentences])
  return [[LABELS[w[0].isupper()] for w in s.words] for s in sentences]


def answer(source, kind=answers.ColumnStream, batch_size=1, **options):
  """Returns what a stream is answered, and the words of each call of `tag`."""
  tag.calls, target = [], io.StringIO()
  stream = kind(tag, **{"document_context": False, **options})
  bad = stream.answer(source, target, batch_size)
  return target.getvalue(), tag.calls, bad


COLUMNS = [b"-DOCSTART- -\n", b"\n", b"a x\n", "Zürich y\n".encode(), b"\n",
           b"B x\n", b"-DOCSTART- -\n", b"c x"]
TAGGED = ("-DOCSTART- - O\n\na x O\nZürich y B-X\n\nB x B-X\n-DOCSTART- - O\n"
          "c x O\n")


@pytest.mark.parametrize("document_context, calls", [
  (False, [[["a", "Zürich"]], [["B"]], [["c"]]]),
  (True, [[["a", "Zürich"], ["B"]], [["c"]]])
])
def test_columns_are_answered_at_the_end_of_a_unit(document_context, calls):
  found = answer(COLUMNS, document_context=document_context)
  assert found == (TAGGED, calls, 0)


@pytest.mark.parametrize("document_context", [False, True])
def test_raw_sentences_are_answered_by_their_words(document_context):
  out, calls, bad = answer(
    [b"Anna's in Bern.\n", b" \n", b"\xff\n", "Z\u4e2d b\n".encode()],
    document_context=document_context, is_text=True
  )
  rows = ["Anna B-X", "' O", "s O", "in O", "Bern B-X", ". O", ""]
  empty, undecodable = "error\tstandard input:2: this line: an", "error\tstan"
  found = out.split("\n")
  assert found[:7] == rows and found[11:] == ["Z B-X", "中 O", "b O", "", ""]
  assert found[7].startswith(empty) and found[9].startswith(undecodable)
  assert bad == 2 and sum(map(len, calls)) == 2


def test_a_raw_sentence_among_columns_is_pointed_out(caplog):
  answer([b"Anna lives in Bern.\n"])
  assert "'Anna lives in Bern.' counts as one word, the first" in caplog.text
  caplog.clear()
  answer([b"Anna x\n", b"lives x\n", b"\n", b"Yes x\n"])
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
  stream = answers.ColumnStream(tag, document_context=False)
  stream.answer(source(), target, 1)
  assert seen == ["A B-X\n\n"]
  assert target.getvalue() == "A B-X\n\nb O\n"


@pytest.mark.parametrize("document_context", [False, True])
def test_sentences_that_cannot_be_read_stop_no_other(document_context):
  """Not UTF-8; columns that vary; other columns than the first sentence."""
  lines = b"A x\n\nb x\n\xff\n\nB x\nc\n\nC\n\nD x\n".splitlines(True)
  out, _, bad = answer(lines, document_context=document_context)
  first, *found, last, end = out.split("\n\n") + [""]
  assert (first, last, end, bad) == ("A x B-X", "D x B-X\n", "", 3)
  for number, fault, line in zip(
    (4, 7, 9), ("not UTF-8", *["1 columns, but line 1 has 2"] * 2), found
  ):
    assert line.startswith(f"error\tstandard input:{number}: {fault}")


@pytest.mark.parametrize("document_context, calls", [
  (False, [[["A"]], [["b"]], [["C", "d"]]]),
  (True, [[["A"], ["b"]], [["C", "d"]]])
])
def test_json_lines_and_what_is_wrong_with_them(document_context, calls):
  objects = [
    {"words": ["A"], "document": 1}, {"words": ["b"], "document": 1},
    {"words": ["C", "d"], "document": 2},
  ]
  lines = [json.dumps(values).encode() + b"\n" for values in objects]
  lines[1:1] = [b"\n", b"{}\n"]
  out, found, bad = answer(
    lines, answers.JsonStream, document_context=document_context
  )
  assert (found, bad) == (calls, 2)
  first, empty, error, *others = map(json.loads, out.splitlines())
  assert "line 2: an empty text" in empty["error"]
  assert error["error"].startswith("line 3: no list of words")
  assert [first, *others] == [
    {**values, "predicted": labels}
    for values, labels in zip(objects, [["B-X"], ["O"], ["B-X", "O"]])
  ]


@pytest.mark.parametrize("kind, lines", [
  (answers.ColumnStream, ["a x", "", "-DOCSTART- -", "b x", "", "c x"]),
  (answers.JsonStream, [
    json.dumps({"words": [word], "document": number})
    for word, number in (("a", 1), ("b", 2), ("c", 2))
  ]),
])
def test_documents_that_come_together_stay_apart(kind, lines):
  seen = []

  def noted(sentences):
    seen.append([sentence.document for sentence in sentences])
    return [["O"] for _ in sentences]

  stream = kind(noted, document_context=True)
  stream.answer([f"{line}\n".encode() for line in lines], io.StringIO(), 100)
  (first, *others), = [sum(seen, [])]
  assert len(others) == 2 and others[0] == others[1] == first + 1


def test_batches_do_not_change_a_label(tmp_path):
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, "ab")
  )

  def model(batch):
    assert set(batch) == {"input_ids", "input_mask", "segment_ids"}
    return tf.one_hot(tf.cast(batch["input_ids"] == 6, tf.int32), 2)

  tagger = answers.SentenceTagger(
    model, tokenizer, LABELS, batch_size=2, max_seq_length=5
  )
  words = "a b b a a b b\n\nb\n\na b b".replace(" ", "\n").split("\n")
  target = io.StringIO()
  stream = answers.ColumnStream(tagger.tag, document_context=False)
  stream.answer([f"{word}\n".encode() for word in words], target, 100)
  expected = [w and f"{w} {LABELS[w == 'b']}" for w in words]
  assert target.getvalue().splitlines() == expected
  first, second = tagger.tag_texts(["a,b", "\u200b"], at_punctuation=True)
  assert first == {
    "words": ["a", ",", "b"], "tags": ["O", "O", "B-X"],
    "probabilities": [1.0] * 3, "starts": [0, 1, 2], "ends": [1, 2, 3],
    "num_words": 3,
  }
  assert second["words"] == second["tags"] == second["probabilities"] == []


@pytest.mark.parametrize("text, at_punctuation, words", [
  (" Stra\u00dfe, na\u0308h-e 3", True,
   ["Stra\u00dfe", ",", "na\u0308h", "-", "e", "3"]),
  ("a-b  U.N.\u2028c", False, ["a-b", "U.N.", "c"]),
  # Control characters belong to no word, unless they are within one.
  ("\x00a\u200bb\x00 \x00 c", True, ["a\u200bb", "c"]),
  ("\u4e2d\u6587x", True, ["\u4e2d", "\u6587", "x"]),
  ("\u4e2d\u6587x", False, ["\u4e2d\u6587x"]),
  (" ", True, []),
])
def test_words(text, at_punctuation, words):
  places = text_spans.word_places(text, at_punctuation=at_punctuation)
  assert [text[start:end] for start, end in places] == words
  if at_punctuation:
    found = tokenization.BasicTokenizer(False).tokenize(text)
    assert found == [word.replace("\u200b", "") for word in words]
