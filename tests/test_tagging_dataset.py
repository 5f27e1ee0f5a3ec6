"""Tests of CoNLL columns: read, cut into windows, written back."""

import random

import pytest

import tokenization
from common import errors, file_io
from tagging import dataset, scoring

IOB1 = """-DOCSTART- -X- O O

U.N. NNP I-NP I-ORG
official NN I-NP O
Ekeus NNP I-NP I-PER
Anna NNP B-NP B-PER

-DOCSTART- -X- O O

Bern NNP I-NP I-LOC
"""
IOB2 = IOB1.replace("I-ORG", "B-ORG").replace("I-LOC", "B-LOC").replace(
  "I-PER", "B-PER"
)
IOBES = IOB2.replace("B-ORG", "S-ORG").replace("B-LOC", "S-LOC").replace(
  "B-PER", "S-PER"
)


def write(tmp_path, text):
  path = tmp_path / "file.conll"
  path.write_text(text, encoding="utf-8")
  return str(path)


def read(tmp_path, text, **options):
  return dataset.read_sentences(write(tmp_path, text), **options)


# Reading.


@pytest.mark.parametrize(
  "scheme, text", [("iob1", IOB1), ("iob2", IOB2), ("iobes", IOBES)]
)
def test_every_scheme_gives_the_same_entities(tmp_path, scheme, text):
  first, second = read(tmp_path, text, scheme=scheme)
  assert first.words == ["U.N.", "official", "Ekeus", "Anna"]
  assert first.lines == [3, 4, 5, 6] and second.lines == [10]
  assert (first.document, second.document) == (1, 2)
  assert scoring.entities(first.labels) == [
    ("ORG", 0, 1), ("PER", 2, 3), ("PER", 3, 4)
  ]
  assert scoring.entities(second.labels) == [("LOC", 0, 1)]


@pytest.mark.parametrize(
  "text, wrong, line, fault",
  [
    (IOB1, "iob2", 3, ""),
    (IOB1, "iobes", 3, ""),
    (IOB2, "iob1", 3, "B-ORG follows O, which iob1 does not have"),
    (IOB2, "iobes", 4, "O follows B-ORG, which iobes does not have"),
    (IOBES, "iob1", 3, "'S-ORG' is no label of iob1, which has O, I-TYPE"),
    (IOBES, "iob2", 3, "'S-ORG' is no label of iob2, which has O, I-TYPE"),
  ],
)
def test_a_file_in_another_scheme_is_named(tmp_path, text, wrong, line, fault):
  with pytest.raises(errors.InputError) as error:
    read(tmp_path, text, scheme=wrong)
  assert f"file.conll:{line}: {fault}" in str(error.value)


# (before, label): the schemes that have it.
MAY_FOLLOW = {
  ("O", "I-X"): "iob1", ("O", "B-X"): "iob2 iobes", ("I-X", "B-X"): "iob1 iob2",
  ("I-X", "B-Y"): "iob2", ("I-X", "I-Y"): "iob1",
  ("I-X", "I-X"): "iob1 iob2 iobes", ("B-X", "I-X"): "iob1 iob2 iobes",
  ("B-X", "O"): "iob1 iob2", ("B-X", "E-X"): "iobes", ("B-X", "E-Y"): "",
  ("E-X", "S-X"): "iobes", ("E-X", "E-X"): "", ("S-X", "B-X"): "iobes",
  ("O", "O"): "iob1 iob2 iobes",
}


@pytest.mark.parametrize("before, label", MAY_FOLLOW)
def test_what_may_follow_what(before, label):
  tags = {"iob1": "IOB", "iob2": "IOB", "iobes": "IOBES"}
  allowed = [
    scheme
    for scheme, known in tags.items()
    if label[0] in known and before[0] in known
    and dataset.may_follow(before, label, scheme)
  ]
  assert allowed == MAY_FOLLOW[before, label].split()


@pytest.mark.parametrize(
  "text, options, words, labels",
  [
    ("B-NP\tNew York\tNNP\nI-NP\tis\tVB\n",
     {"word_column": 1, "label_column": 0}, ["New York", "is"],
     ["B-NP", "I-NP"]),
    ("a DT O\nb -LRB- O\n", {"label_column": 1, "scheme": "none"},
     ["a", "b"], ["DT", "-LRB-"]),
    ("a\nb\n", {"labelled": False}, ["a", "b"], None),
    # Windows' line ends; no-break spaces are parts of words.
    ("a\u00a0b O\r\nc O \r\n\r\n", {}, ["a\u00a0b", "c"], ["O", "O"]),
  ],
)
def test_columns_are_chosen(tmp_path, text, options, words, labels):
  (found,) = read(tmp_path, text, **options)
  assert (found.words, found.labels) == (words, labels)


@pytest.mark.parametrize(
  "text, options, fault",
  [
    ("a DT O\n", {"label_column": 1}, "'DT' is no label of iob2.*none"),
    ("\na O\n\nb c O\n", {}, "conll:4: 3 columns, but line 2 has 2; every"),
    ("a O\n", {"label_column": 2},
     "conll:1: --label_column=2, but there are 2 columns; pass .* -2 to 1"),
    ("a O\n", {"word_column": -3}, "--word_column=-3, but there are 2"),
    ("\n-DOCSTART- O\n\n\n", {}, "holds no sentence, only empty"),
    ("a O\nb B-X\n\nc O\n", {"scheme": "iobes"},
     "file.conll:2 .end of the sent"),
  ],
)
def test_files_that_are_refused(tmp_path, text, options, fault):
  with pytest.raises(errors.InputError, match=fault):
    read(tmp_path, text, **options)


def test_all_faults_are_listed_at_once(tmp_path):
  """One for each sentence: the first 20, and a count."""
  text = "a O\n\nb c O\n\nd I-X\ne\n\nf O\n\n" + "g X\n\n" * 20
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, text)
  heading, *lines = str(raised.value).split("\n")
  assert heading.endswith("file.conll: 22 faults; fix them:")
  assert "file.conll:3: 3 columns, but line 1 has 2" in lines[0]
  assert "file.conll:6: 1 columns, but line 1 has 2" in lines[1]
  assert "file.conll:10: 'X' is no label of iob2" in lines[2]
  assert len(lines) == 21 and lines[-1] == "  ... and 2 more"


def test_empty_sentences_are_skipped_with_one_warning(tmp_path, caplog):
  text = "\n-DOCSTART- O\n\na O\n\n\n\nb O\n"
  with caplog.at_level("WARNING"):
    found = read(tmp_path, text)
  assert [sentence.words for sentence in found] == [["a"], ["b"]]
  (record,) = caplog.records
  assert record.getMessage().endswith(
    "file.conll: 2 empty sentences skipped, the first at line 6"
  )


# Labels and their numbers.


def test_the_labels_are_sorted_with_o_first(tmp_path):
  sentences = read(tmp_path, IOB1, scheme="iob1")
  labels = dataset.label_list(sentences)
  assert labels == ["O", "B-PER", "I-LOC", "I-ORG", "I-PER"]
  assert dataset.label_ids(sentences, labels, "f") == [[3, 0, 4, 1], [2]]


def test_an_unknown_label_is_named(tmp_path):
  sentences = read(tmp_path, IOB1, scheme="iob1")
  with pytest.raises(
    errors.InputError,
    match=r"f.conll:5: 'I-PER' is none of the labels that the model was "
    r"trained with \(O, I-ORG\)",
  ):
    dataset.label_ids(sentences, ["O", "I-ORG"], "f.conll")


# Windows.


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
  """One letter is one word piece."""
  path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
  letters = "abcdefghij"
  pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters]
  path.write_text("\n".join([*pieces, *(f"##{x}" for x in letters)]))
  return tokenization.FullTokenizer(str(path))


def sentences_of(*documents):
  """Each document is a list of sentences, each a string of words."""
  return [
    dataset.Sentence(
      number, list(range(1, len(text.split()) + 1)), text.split(),
      ["O"] * len(text.split()),
    )
    for number, document in enumerate(documents)
    for text in document
  ]


def shown(tokenizer, windows):
  """Windows as text; a word that has its label there is in capitals."""
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
  windows = dataset.make_windows(sentences, tokenizer, 6)
  assert shown(tokenizer, windows) == ["Ab Cd", "E Fgh", "I J"]
  assert windows[1].positions == [1, 2]
  assert [(w.sentence, w.first_word) for w in windows] == [
    (0, 0), (0, 2), (0, 4)
  ]


def test_context_fills_the_window_from_both_sides_of_the_document(tokenizer):
  for documents, room, expected in (
    ([["a b c d", "e f", "g h i j"], ["j j"]], 8,
     ["A B C D e f", "c d E F g h", "e f G H I J", "J J"]),
    # One side takes the room that the other has not.
    ([["a", "b c d e f g"]], 7, ["A b c d e", "B C D E F", "c d e f G"]),
  ):
    windows = dataset.make_windows(
      sentences_of(*documents), tokenizer, room, document_context=True
    )
    assert shown(tokenizer, windows) == expected


def test_context_is_whole_words():
  words = [[1], [2, 3, 4], [5], [6, 7], [8]]
  assert dataset.widened(words, 2, 3, 3) == (2, 4)
  assert dataset.widened(words, 2, 3, 4) == (1, 3)
  assert dataset.widened(words, 2, 3, 6) == (1, 4)
  assert dataset.widened(words, 2, 3, 100) == (0, 5)


def test_a_word_longer_than_the_window_keeps_its_label(tokenizer, caplog):
  with caplog.at_level("WARNING"):
    windows = dataset.make_windows(
      sentences_of(["a bcdefghij c"]), tokenizer, 6, path="f.conll"
    )
  assert shown(tokenizer, windows) == ["A", "Bcde", "C"]
  (record,) = caplog.records
  assert record.getMessage() == (
    "f.conll:2: the word bcdefghij... has 9 word pieces, of which a window "
    "holds the first 4; its label is kept"
  )


def test_a_word_without_word_piece_is_unknown(tokenizer):
  (window,) = dataset.make_windows(sentences_of(["a \u200b"]), tokenizer, 6)
  assert tokenizer.convert_ids_to_tokens(window.input_ids) == [
    "[CLS]", "a", "[UNK]", "[SEP]"
  ]
  assert window.positions == [1, 2]


def test_a_window_without_room_is_refused(tokenizer):
  with pytest.raises(errors.InputError, match="--max_seq_length=2 leaves no"):
    dataset.make_windows(sentences_of(["a"]), tokenizer, 2)


def test_one_document_is_said(caplog):
  with caplog.at_level("WARNING"):
    dataset.warn_of_one_document(sentences_of(["a", "b"]), "f")
  assert "f: all of it counts as one document" in caplog.text


@pytest.mark.parametrize("document_context", [False, True])
def test_every_word_is_predicted_exactly_once(tokenizer, document_context):
  rng = random.Random(3)
  sentences = sentences_of(*[
    [
      " ".join(
        "".join(rng.choices("abcdefghij", k=rng.randint(1, 9)))
        for _ in range(rng.randint(1, 12))
      )
      for _ in range(rng.randint(1, 5))
    ]
    for _ in range(30)
  ])
  windows = dataset.make_windows(
    sentences, tokenizer, 12, document_context=document_context
  )
  assert max(len(window.input_ids) for window in windows) <= 12
  # As if the model saw the first letter of each word.
  predicted = [window.input_ids for window in windows]
  assert dataset.predicted_labels(
    sentences, windows, predicted, tokenizer.inv_vocab
  ) == [[word[0] for word in sentence.words] for sentence in sentences]


# Writing back.


def test_predictions_are_one_more_column(tmp_path):
  path = write(tmp_path, "-DOCSTART- O\n\na O\nb\tO\r\n\n\nc O \n")
  lines = (line for _, line in file_io.read_lines(path))
  lines = dataset.with_column(lines, [["B-X", "I-X"], ["O"]])
  assert "".join(lines) == ("-DOCSTART- O O\n\na O B-X\nb\tO\tI-X\n\n\nc O O\n")
