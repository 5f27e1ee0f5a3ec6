"""Compares windows of passages, and their records, with the original's."""

import functools
import gzip
import json
import pathlib

import numpy as np
import pytest

import tiny_model
import tokenization
from common import errors, run_settings
from records import tfrecord
from squad import data, inputs, windowing
from text import cut_texts

GOLDEN = pathlib.Path(__file__).parent / "golden"
WINDOWS, RUN = GOLDEN / "squad" / "windows", GOLDEN / "squad" / "run"
LENGTHS = windowing.Lengths(64, 20, 16)
RUNS = {
  # Lengths, vocabulary, training.
  "odd_eval": ((100, 40, 20), "uncased", False),
  "xquad_ar_train": ((256, 64, 24), "multi_cased", True),
  "xquad_tr_train": ((256, 128, 24), "multi_cased", True),
  "xquad_zh_train": ((256, 64, 24), "multi_cased", True),
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
  """A function that unpacks a golden file and returns its path."""
  folder = tmp_path_factory.mktemp("squad")

  def path_of(path):
    if not path.exists():
      packed = path.with_name(f"{path.name}.gz").read_bytes()
      path = folder / path.name
      path.write_bytes(gzip.decompress(packed))
    return str(path)

  return path_of


@pytest.fixture(scope="module")
def released(unpacked):
  @functools.cache
  def tokenizer_of(name):
    path = unpacked(GOLDEN / "tokenization" / f"{name}_vocab.txt")
    return tokenization.FullTokenizer(path, name == "uncased")

  return tokenizer_of


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(RUN / "model" / "vocab.txt"))


@pytest.fixture
def read(unpacked):
  return lambda name: data.read(
    unpacked(RUN / f"{name}.json"), training=name == "train", version_2=True
  )


@pytest.mark.parametrize("name", RUNS)
def test_every_field_is_the_originals(unpacked, released, name):
  lengths, vocabulary, training = RUNS[name]
  path = unpacked(WINDOWS / f"{name.rpartition('_')[0]}.json")
  questions = data.read(path, training=training).questions
  tokenizer = released(vocabulary)
  windows = list(
    windowing.make_windows(
      questions, tokenizer, windowing.Lengths(*lengths), training=training
    )
  )
  golden = np.load(WINDOWS / f"{name}.npz")
  assert len(windows) == len(golden["input_ids"])
  rows = zip(
    golden["input_ids"],
    golden["input_mask"],
    golden["words"],
    golden["max_context"],
    strict=True,
  )
  for window, (ids, mask, words, is_max) in zip(windows, rows, strict=True):
    assert window.num_tokens == len(window.tokens) == mask.sum()
    window_ids = tokenizer.convert_tokens_to_ids(window.tokens)
    assert window_ids == ids[: window.num_tokens].tolist()
    passage, pieces = window.passage, np.flatnonzero(words >= 0)
    in_window = slice(window.start, window.start + window.length)
    assert pieces.tolist() == list(
      range(window.first_position, window.num_tokens - 1)
    )
    np.testing.assert_array_equal(passage.words[in_window], words[pieces])
    np.testing.assert_array_equal(window.is_max_context, is_max[pieces] > 0)
    assert passage.ids.tolist() == tokenizer.convert_tokens_to_ids(
      passage.tokens
    )
  fields = {
    "unique_id": "unique_id",
    "question_index": "example_index",
    "doc_span_index": "doc_span_index",
  }
  positions = ["start_position", "end_position"]
  if training:
    fields |= {name: name for name in (*positions, "is_impossible")}
  for attribute, golden_name in fields.items():
    values = [getattr(window, attribute) for window in windows]
    np.testing.assert_array_equal(values, golden[golden_name], attribute)
  if not training:
    assert {getattr(w, n) for w in windows for n in positions} == {None}
    assert windows[0].passage is windows[-40].passage


def test_only_questions_that_do_not_fit_are_counted_as_cut(tokenizer, caplog):
  questions = [
    data.Question(str(count), " ".join(["the"] * count), ["the"])
    for count in (2, 3, 4)
  ]
  assert tokenizer.tokenize("the the") == ["the", "the"]
  cut = cut_texts.CutTexts(3, "questions")
  windows = windowing.make_windows(
    questions, tokenizer, windowing.Lengths(9, 3, 3), cut=cut
  )
  assert [window.first_position for window in windows] == [4, 5, 5]
  cut.log()
  assert caplog.messages == [
    "1 of 3 questions are longer than 3 tokens and were cut"
  ]


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
def test_windows_cover_the_passage(num_pieces, room, stride, spans):
  cuts = windowing.cut_passage(num_pieces, room, stride)
  assert [cut[:2] for cut in cuts] == spans
  counts = np.zeros(num_pieces, int)
  for start, length, is_max_context in cuts:
    counts[start : start + length] += is_max_context
  assert (counts == 1).all()


def test_a_piece_counts_in_the_window_with_most_context():
  (_, _, first), (_, _, second) = windowing.cut_passage(7, 5, 2)
  # Pieces 2 to 4 are in both windows. In both, piece 3 has one piece on its
  # shorter side; in a tie, the first window counts.
  assert first.tolist() == [True, True, True, True, False]
  assert second.tolist() == [False, False, True, True, True]


def test_a_longer_window_counts_for_more_context():
  """As in the original: a hundred pieces of length outweigh one of context."""
  first, second = windowing.cut_passage(350, 300, 200)
  assert first[:2] == (0, 300) and second[:2] == (200, 150)
  # Piece 250 has 49 pieces on its shorter side in the first window, and 50 in
  # the second: 49 + 3 > 50 + 1.5. For piece 251, 48 + 3 < 51 + 1.5.
  assert first[2].tolist() == [True] * 251 + [False] * 49
  assert second[2].tolist() == [False] * 51 + [True] * 99


def test_a_passage_without_pieces_has_no_window(released):
  questions = data.from_texts([("Who?", "\u200b"), ("Who?", "I.")])
  (window,) = windowing.make_windows(
    questions, released("uncased"), windowing.Lengths(20, 5, 8)
  )
  assert window.question_index == 1
  assert window.tokens == ["[CLS]", "who", "?", "[SEP]", "i", ".", "[SEP]"]


def test_a_window_with_half_an_answer_has_none(released):
  words = "one two three four five".split()
  question = data.Question("a", "a", words, "three four", 2, 3)
  # Windows have three words, so the first window ends within the answer.
  windows = windowing.make_windows(
    [question], released("uncased"), windowing.Lengths(7, 1, 1), training=True
  )
  starts = [(w.tokens[w.start_position], w.start) for w in windows]
  assert starts == [("[CLS]", 0), ("three", 1), ("three", 2)]


def test_too_little_room_is_refused_in_one_sentence():
  names = "max_seq_length", "doc_stride", "max_query_length"

  def lengths_of(*values):
    settings = run_settings.Settings(dict(zip(names, values)))
    return windowing.lengths_of(settings, tokenization.BERTS)

  with pytest.raises(
    errors.InputError, match="pass more than 67, or a smaller"
  ):
    lengths_of(67, 128, 64)
  assert lengths_of(68, 128, 64) == (68, 128, 64)


@pytest.mark.parametrize(
  "name, golden", [("train", "train_records"), ("dev", "eval_records")]
)
def test_records_are_the_originals(tokenizer, read, tmp_path, name, golden):
  path = str(tmp_path / "a.tf_record")
  training = name == "train"
  file = inputs.prepare(
    read(name), tokenizer, LENGTHS, records=path, training=training
  )
  golden = np.load(RUN / f"{golden}.npz")
  records = list(tfrecord.read_records(path))
  assert file.num_records == len(records) == len(golden["input_ids"])
  assert (file.windows is None) == training
  assert set(records[0]) == set(golden)
  for feature in golden:
    values = np.array([record[feature] for record in records])
    np.testing.assert_array_equal(values, golden[feature], feature)
  features = inputs.record_features(64, training=training)
  assert set(features) <= set(golden)


def test_odd_answers_have_the_originals_positions(released, tmp_path):
  path = str(tmp_path / "a.tf_record")
  inputs.prepare(
    data.read(str(WINDOWS / "odd.json"), training=True),
    released("uncased"),
    windowing.Lengths(100, 40, 20),
    records=path,
    training=True,
  )
  golden = np.load(WINDOWS / "odd_train.npz")
  for row, record in enumerate(tfrecord.read_records(path)):
    for feature in golden:
      np.testing.assert_array_equal(record[feature], golden[feature][row])
  assert row + 1 == len(golden["input_ids"])


@pytest.mark.parametrize("training", [True, False])
def test_the_first_windows_are_in_the_details_of_the_log(
  tokenizer, tmp_path, caplog, training
):
  caplog.set_level("DEBUG", logger="absl")
  answers = [{"text": "the", "answer_start": 0}]
  qas = [{"id": "q7", "question": "the the", "answers": answers}]
  path = tmp_path / "a.json"
  path.write_text(
    json.dumps({"data": [{"paragraphs": [{"context": "the", "qas": qas}]}]})
  )
  records = str(tmp_path / "a.tf_record")
  file = data.read(str(path), training=training)
  inputs.prepare(
    file,
    tokenizer,
    windowing.Lengths(9, 3, 3),
    records=records,
    training=training,
  )
  messages = [text.strip() for text in caplog.messages]
  assert f"{path}: 1 questions" in messages
  assert f"{path}: 1 windows in {records}" in messages
  assert "question q7, window 0: [CLS] the the [SEP] the [SEP]" in messages
  assert ("answer 'the': tokens 4 to 4, the" in messages) == training


def test_records_are_kept_while_nothing_changes(tokenizer, read, tmp_path):
  path, copied = tmp_path / "a.tf_record", tmp_path / "dev.json"

  def prepare(lengths=LENGTHS):
    file = data.read(str(copied), version_2=True)
    inputs.prepare(file, tokenizer, lengths, records=str(path))
    return path.stat().st_mtime_ns

  copied.write_bytes(pathlib.Path(read("dev").path).read_bytes())
  first = prepare()
  assert prepare() == first
  second = prepare(LENGTHS._replace(doc_stride=10))
  assert second != first
  copied.write_text(copied.read_text().replace("When", "Where", 1))
  assert prepare(LENGTHS._replace(doc_stride=10)) != second


def fingerprint(tmp_path, monkeypatch, **changes):
  """Returns what identifies the records of one question, after changes."""
  vocabulary = tiny_model.write_vocabulary(tmp_path, changes.get("words", "ab"))
  question = data.Question("q", "a", ["a", "b"])
  file = data.SquadFile(
    str(tmp_path / "f.json"),
    [question._replace(is_impossible=changes.get("is_impossible", False))],
    True,
    [data.Skipped("r", "no answer")] * changes.get("skipped", 0),
  )
  (tmp_path / "f.json").write_text(changes.get("text", "{}"))
  facts = []
  monkeypatch.setattr(
    inputs.cached_records,
    "ensure",
    lambda path, values, write: (
      facts.append(values) or {"num_records": 1, "unknown": 0, "tokens": 9}
    ),
  )
  inputs.prepare(
    file,
    tokenization.FullTokenizer(
      vocabulary, changes.get("lower", True), changes.get("never_split", ())
    ),
    changes.get("lengths", LENGTHS),
    records=str(tmp_path / "a.tf_record"),
    training=changes.get("training", False),
  )
  return facts


@pytest.mark.parametrize(
  "changes",
  [
    {"text": "[]"},
    {"words": "abc"},
    {"lower": False},
    {"never_split": ("a",)},
    {"lengths": LENGTHS._replace(max_query_length=15)},
    {"training": True},
    {"is_impossible": True},
    {"skipped": 1},
  ],
)
def test_records_are_made_again_after_any_change(
  tmp_path, monkeypatch, changes
):
  first = fingerprint(tmp_path, monkeypatch)
  assert fingerprint(tmp_path, monkeypatch) == first
  assert fingerprint(tmp_path, monkeypatch, **changes) != first


def test_a_file_for_two_purposes_is_prepared_once(tokenizer, read, tmp_path):
  dev, folder = read("dev"), str(tmp_path)
  files = inputs.prepare_all(
    {"train": read("train"), "predict": dev, "eval": dev},
    tokenizer,
    LENGTHS,
    folder=folder,
  )
  assert files["eval"] is files["predict"]
  assert not (tmp_path / "dev.tf_record").exists()
  files = inputs.prepare_all({"eval": dev}, tokenizer, LENGTHS, folder=folder)
  assert files["eval"].records == str(tmp_path / "dev.tf_record")


def test_contexts_without_words_are_refused(tokenizer, tmp_path):
  path = tmp_path / "a.json"
  path.write_text("{}")
  questions = data.from_texts([("Who?", " ")])
  file = data.SquadFile(str(path), questions, False, [])
  with pytest.raises(errors.InputError, match="no context has a word"):
    inputs.prepare(
      file, tokenizer, LENGTHS, records=str(tmp_path / "a.tf_record")
    )


def test_a_vocabulary_that_does_not_fit_is_reported(tmp_path, read, caplog):
  """The warning is repeated if the records already exist."""
  caplog.set_level("DEBUG", logger="absl")
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, ["the", "?"])
  )
  file = read("train")
  for num_examples in (5, 0):
    caplog.clear()
    inputs.prepare(
      file, tokenizer, LENGTHS, records=str(tmp_path / "a"), training=True
    )
    examples = [text for text in caplog.messages if "[CLS] " in text]
    assert len(examples) == num_examples
    assert all(text.endswith("[SEP]") for text in examples)
    (warning,) = [
      text for text in caplog.messages if "the model learns nothing" in text
    ]
    assert warning.startswith(f"{file.path}: ")


CHINESE = "東京在日本。日本的首都是東京，東京很大。"


@pytest.mark.parametrize(
  "context, text, offset, pieces",
  [
    (CHINESE, "東京", 0, ["東", "京"]),
    (CHINESE, "東京", 12, ["東", "京"]),
    (CHINESE, "東京", 15, ["東", "京"]),
    # The pieces of the whole word differ from the pieces of the answer.
    ("abcde fg", "cd", 2, ["##cde"]),
    ("abcde fg", "e f", 4, ["##cde", "fg"]),
    ("abcde (abcde) abcde", "abcde", 7, ["ab", "##cde"]),
    ("Xabcde fg", "abcde", 1, ["[UNK]"]),
  ],
)
def test_the_answer_is_where_the_file_says(
  tmp_path, context, text, offset, pieces
):
  words = ["ab", "##cde", "fg", "(", ")", *CHINESE]
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, words)
  )
  path = tmp_path / "train.json"
  path.write_text(
    json.dumps(
      {
        "data": [
          {
            "paragraphs": [
              {
                "context": context,
                "qas": [
                  {
                    "id": "q",
                    "question": "?",
                    "answers": [{"text": text, "answer_start": offset}],
                  }
                ],
              }
            ]
          }
        ]
      }
    )
  )
  (question,) = data.read(str(path), training=True).questions
  (passage,) = windowing.make_passages([question], tokenizer).values()
  first, last = windowing.find_answer(question, passage, tokenizer)
  assert passage.tokens[first : last + 1] == pieces
  if pieces == ["東", "京"]:
    assert first == offset  # One piece per character.
