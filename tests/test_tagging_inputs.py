"""Tests how sentences are cut into windows, and windows become records."""

import random

import pytest

import tiny_model
import tokenization
from common import errors, run_settings
from records import tfrecord
from tagging import data, inputs, windowing
from text import cut_texts


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  """Each letter is a word piece."""
  letters = "abcdefghij"
  return tokenization.FullTokenizer(
    tiny_model.write_vocabulary(
      tmp_path_factory.mktemp("vocab"), [*letters, *(f"##{x}" for x in letters)]
    )
  )


def sentences_of(*documents):
  return [
    data.Sentence(
      number,
      list(range(1, len(text.split()) + 1)),
      text.split(),
      ["O"] * len(text.split()),
    )
    for number, document in enumerate(documents)
    for text in document
  ]


def texts_of(tokenizer, windows):
  """Returns windows as texts, in which labelled words are capitalized."""
  texts = []
  for window in windows:
    pieces = tokenizer.convert_ids_to_tokens(window.input_ids)
    for position in window.positions:
      pieces[position] = pieces[position].upper()
    texts.append(" ".join(pieces[1:-1]).replace(" ##", ""))
    assert (pieces[0], pieces[-1]) == ("[CLS]", "[SEP]")
  return texts


def test_a_long_sentence_is_cut_between_words(tokenizer):
  sentences = sentences_of(["ab cd e fgh i j"])
  windows = windowing.make_windows(sentences, tokenizer, 6)
  assert texts_of(tokenizer, windows) == ["Ab Cd", "E Fgh", "I J"]
  assert windows[1].positions == [1, 2]
  assert [(w.sentence, w.first_word) for w in windows] == [
    (0, 0),
    (0, 2),
    (0, 4),
  ]


def test_context_fills_the_window_from_both_sides_of_the_document(tokenizer):
  for documents, room, expected in (
    (
      [["a b c d", "e f", "g h i j"], ["j j"]],
      8,
      ["A B C D e f", "c d E F g h", "e f G H I J", "J J"],
    ),
    ([["a", "b c d e f g"]], 7, ["A b c d e", "B C D E F", "c d e f G"]),
  ):
    windows = windowing.make_windows(
      sentences_of(*documents), tokenizer, room, document_context=True
    )
    assert texts_of(tokenizer, windows) == expected


def test_context_reaches_the_first_and_the_last_word():
  for room, expected in ((1, (1, 2)), (2, (0, 2)), (3, (0, 3)), (9, (0, 3))):
    assert windowing.widened([[5], [6], [7]], 1, 2, room) == expected


def test_a_word_longer_than_the_window_keeps_its_label(tokenizer, caplog):
  with caplog.at_level("WARNING"):
    windows = windowing.make_windows(
      sentences_of(["a bcdefghij c"]), tokenizer, 6, path="f.conll"
    )
  assert texts_of(tokenizer, windows) == ["A", "Bcde", "C"]
  (record,) = caplog.records
  assert record.getMessage() == (
    "f.conll:2: the word bcdefghij... has 9 word pieces; the model reads "
    "only the first 4, and the word keeps its label"
  )


def test_only_words_that_do_not_fit_are_counted_as_cut(tokenizer, caplog):
  cut = cut_texts.CutTexts(4, "words")
  windowing.make_windows(
    sentences_of(["abcd abcde a"]), tokenizer, 6, cut=cut, path="f.conll"
  )
  (message,) = caplog.messages
  assert message.startswith("f.conll:2: the word abcde... has 5 word pieces")
  caplog.clear()
  cut.log()
  assert caplog.messages == [
    "1 of 3 words are longer than 4 tokens and were cut"
  ]
  # A server passes no path, because nobody would read the warning.
  caplog.clear()
  windowing.make_windows(sentences_of(["abcde"]), tokenizer, 6)
  assert not caplog.messages


def test_a_word_without_word_piece_is_unknown(tokenizer):
  (window,) = windowing.make_windows(sentences_of(["a \u200b"]), tokenizer, 6)
  assert tokenizer.convert_ids_to_tokens(window.input_ids) == [
    "[CLS]",
    "a",
    "[UNK]",
    "[SEP]",
  ]
  assert window.positions == [1, 2]


def test_a_window_without_room_is_refused(tokenizer):
  with pytest.raises(errors.InputError, match="--max_seq_length=2 leaves no"):
    windowing.make_windows(sentences_of(["a"]), tokenizer, 2)


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_predicted_exactly_once(tokenizer, document_context):
  rng = random.Random(3)
  sentences = sentences_of(
    *[
      [
        " ".join(
          "".join(rng.choices("abcdefghij", k=rng.randint(1, 9)))
          for _ in range(rng.randint(1, 12))
        )
        for _ in range(rng.randint(1, 5))
      ]
      for _ in range(30)
    ]
  )
  windows = windowing.make_windows(
    sentences, tokenizer, 12, document_context=document_context
  )
  assert max(len(window.input_ids) for window in windows) <= 12
  predictions = (
    tokenizer.convert_ids_to_tokens([w.input_ids[n] for n in w.positions])
    for w in windows
  )
  assert windowing.of_sentences(windows, predictions, len(sentences)) == [
    [word[0] for word in sentence.words] for sentence in sentences
  ]


SENTENCES = [
  data.Sentence(0, [1, 2], ["ab", "c"], ["B-X", "O"]),
  data.Sentence(0, [4], ["d"], ["O"]),
]
WINDOWS = [
  windowing.Window([2, 10, 11, 12, 3], 0, 0, [1, 3]),
  windowing.Window([2, 13, 3], 1, 0, [1]),
  # The window for the first sentence's second word.
  windowing.Window([2, 12, 3], 0, 1, [1]),
]


def prepare(tmp_path, sentences, labels=("O", "B-X")):
  return inputs.prepare(
    "f.conll",
    sentences,
    WINDOWS,
    labels=list(labels),
    records=str(tmp_path / "a.tf_record"),
    max_seq_length=6,
    file_format="conll",
  )


def test_records_hold_labels_at_first_pieces(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  file = prepare(tmp_path, SENTENCES)
  words = sum(len(sentence.words) for sentence in SENTENCES)
  assert caplog.messages[0] == (
    f"f.conll: {len(SENTENCES)} sentences, {words} words, 3 windows"
  )
  assert file.is_labelled
  first, *others = tfrecord.read_records(file.records)
  expected = {
    "input_ids": [2, 10, 11, 12, 3, 0],
    "input_mask": [1, 1, 1, 1, 1, 0],
    "segment_ids": [0] * 6,
    "label_ids": [-1, 1, -1, 0, -1, -1],
  }
  assert {name: list(values) for name, values in first.items()} == expected
  for record in others:
    assert list(record["label_ids"]) == [-1, 0, -1, -1, -1, -1]


def test_windows_and_the_share_of_unknown_pieces_are_logged(tmp_path, caplog):
  tokenizer = tokenization.FullTokenizer(
    tiny_model.write_vocabulary(tmp_path, "a")
  )
  windows = [windowing.Window([2, 5, 1, 5, 3], 0, 0, [1, 2, 3])] * 6
  caplog.set_level("DEBUG", logger="absl")
  inputs.log_windows("f.conll", windows, tokenizer)
  assert caplog.text.count("  [CLS] a [UNK] a [SEP]") == 5
  (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
  assert "f.conll: 33.3 % of the tokens are [UNK]" in warning.getMessage()


def test_labels_may_be_missing_but_not_unknown(tmp_path):
  with pytest.raises(errors.InputError, match="f.conll:1: 'B-X' is not among"):
    prepare(tmp_path, SENTENCES, labels=["O"])
  assert not list(tmp_path.iterdir())
  file = prepare(tmp_path, [s._replace(labels=None) for s in SENTENCES])
  assert not file.is_labelled
  for record in tfrecord.read_records(file.records):
    assert set(record["label_ids"]) == {inputs.NO_LABEL}


def test_a_file_that_is_one_document_is_reported(tokenizer, tmp_path, caplog):
  settings = run_settings.Settings(
    {
      "document_context": True,
      "max_seq_length": 6,
      "file_format": None,
      "output_dir": str(tmp_path),
    }
  )
  for documents, is_one in (([["a", "b"]], True), ([["a"], ["b"]], False)):
    caplog.clear()
    inputs.prepare_all(
      settings,
      {"eval": "f"},
      {"eval": sentences_of(*documents)},
      tokenizer=tokenizer,
      labels=["O"],
    )
    is_warned = "f: the whole file counts as one document" in caplog.text
    assert is_warned == is_one


def config_of(*labels):
  id2label = {str(n): label for n, label in enumerate(labels)}
  return tiny_model.tiny().from_dict(
    {**tiny_model.TINY, "id2label": id2label, "input_settings": {"x": 1}}
  )


def test_labels_come_from_the_data_the_folder_or_the_model(tmp_path):
  path = str(tmp_path / "labels.txt")
  known = config_of("O", "B-Z")
  assert inputs.model_labels(None, path, known) == ["O", "B-Z"]
  with pytest.raises(errors.InputError, match="labels.txt"):
    inputs.model_labels(None, path, config_of())
  (tmp_path / "labels.txt").write_text("O\nB-Y\n")
  assert inputs.model_labels(None, path, known) == ["O", "B-Y"]
  assert inputs.model_labels(SENTENCES, path, known) == ["O", "B-X"]


def test_a_models_configuration_has_its_labels_alone():
  trained = inputs.trained_config(config_of("O", "B-Z"), ["O", "B-X"])
  values = trained.to_dict()
  assert values["id2label"] == {"0": "O", "1": "B-X"}
  assert "input_settings" not in values


@pytest.mark.parametrize(
  "files, given, names, fault",
  [
    ("a.conll b.conll", "word_column", (), None),
    ("a.jsonl b.conll", "label_column", ("O",), None),
    ("a.jsonl b.json", "", ("O",), None),
    ("a.jsonl b.json", "label_column word_column", (), "--label_column"),
    ("a.conll b.txt", "", ("O",), "--label_names"),
  ],
)
def test_flags_of_another_format_are_refused(files, given, names, fault):
  paths = dict(zip(("train_file", "eval_file"), files.split()))
  settings = run_settings.Settings(
    {
      **dict.fromkeys(("do_train", "do_eval"), True),
      **dict.fromkeys(("do_predict", "eval_steps", "file_format")),
      **paths,
      "label_names": names,
    },
    given.split(),
  )
  if fault:
    with pytest.raises(errors.InputError, match=f"{fault} has no effect"):
      inputs.files_to_read(settings)
    return
  train, evaluated = files.split()
  found = inputs.files_to_read(settings)
  assert found == {"train": train, "eval": evaluated}
