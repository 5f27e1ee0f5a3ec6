"""Files of sentences: read, checked, written back with labels."""

import json

import pytest

from common import errors
from tagging import data, scores

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


def write(tmp_path, text, name="file.conll"):
  path = tmp_path / name
  path.write_text(text, encoding="utf-8")
  return str(path)


def write_json(tmp_path, *objects):
  lines = [o if isinstance(o, str) else json.dumps(o) for o in objects]
  return write(tmp_path, "".join(f"{line}\n" for line in lines), "file.jsonl")


def read(tmp_path, text, **options):
  return data.read(write(tmp_path, text), **options)


@pytest.mark.parametrize(
  "scheme, text", [("iob1", IOB1), ("iob2", IOB2), ("iobes", IOBES)]
)
def test_every_scheme_gives_the_same_entities(tmp_path, scheme, text):
  first, second = read(tmp_path, text, scheme=scheme)
  assert first.words == ["U.N.", "official", "Ekeus", "Anna"]
  assert first.lines == [3, 4, 5, 6] and second.lines == [10]
  assert (first.document, second.document) == (1, 2)
  assert scores.entities(first.labels) == [
    ("ORG", 0, 1), ("PER", 2, 3), ("PER", 3, 4)
  ]
  assert scores.entities(second.labels) == [("LOC", 0, 1)]


@pytest.mark.parametrize("text, wrong, line, fault", [
  (IOB1, "iob2", 3, ""), (IOB1, "iobes", 3, ""),
  (IOB2, "iob1", 3, "B-ORG follows O, which iob1 does not have"),
  (IOB2, "iobes", 4, "O follows B-ORG, which iobes does not have"),
  (IOBES, "iob1", 3, "'S-ORG' is no label of iob1, which has O, I-TYPE"),
  (IOBES, "iob2", 3, "'S-ORG' is no label of iob2, which has O, I-TYPE")
])
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
    and data.may_follow(before, label, scheme)
  ]
  assert allowed == MAY_FOLLOW[before, label].split()


@pytest.mark.parametrize("text, options, words, labels", [
  ("B-NP\tNew York\tNNP\nI-NP\tis\tVB\n",
   {"word_column": 1, "label_column": 0}, ["New York", "is"],
   ["B-NP", "I-NP"]),
  ("a DT O\nb -LRB- O\n", {"label_column": 1, "scheme": "none"},
   ["a", "b"], ["DT", "-LRB-"]),
  ("a\nb\n", {"labelled": False}, ["a", "b"], None),
  # Windows' line ends; no-break spaces are parts of words.
  ("a\u00a0b O\r\nc O \r\n\r\n", {}, ["a\u00a0b", "c"], ["O", "O"]),
])
def test_columns_are_chosen(tmp_path, text, options, words, labels):
  (found,) = read(tmp_path, text, **options)
  assert (found.words, found.labels) == (words, labels)


@pytest.mark.parametrize("text, options, fault", [
  ("a DT O\n", {"label_column": 1}, "'DT' is no label of iob2.*none"),
  ("\na O\n\nb c O\n", {}, "conll:4: 3 columns, but line 2 has 2; every"),
  ("a O\n", {"label_column": 2},
   "conll:1: --label_column=2, but there are 2 columns; pass .* -2 to 1"),
  ("a O\n", {"word_column": -3}, "--word_column=-3, but there are 2"),
  ("\n-DOCSTART- O\n\n\n", {}, "holds no sentence, only empty"),
  ("a O\nb B-X\n\nc O\n", {"scheme": "iobes"}, "file.conll:2 .end of the sent"),
])
def test_files_that_are_refused(tmp_path, text, options, fault):
  with pytest.raises(errors.InputError, match=fault):
    read(tmp_path, text, **options)


def test_all_faults_are_listed_at_once(tmp_path):
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


def test_the_labels_are_sorted_with_o_first(tmp_path):
  sentences = read(tmp_path, IOB1, scheme="iob1")
  labels = data.label_list(sentences)
  assert labels == ["O", "B-PER", "I-LOC", "I-ORG", "I-PER"]
  assert data.label_ids(sentences, labels, "f") == [[3, 0, 4, 1], [2]]


def test_raw_sentences(tmp_path):
  path = write(tmp_path, "Anna's in Bern.\nYes\n", "a.txt")
  found = data.read(path, labelled=None, file_format="text")
  assert [s.words for s in found] == [
    ["Anna", "'", "s", "in", "Bern", "."], ["Yes"]
  ]
  assert [s.labels for s in found] == [None, None]
  assert found[1].lines == [2]
  lines = data.with_predictions(path, "text", [["B-X", *"OOOOO"], ["O"]])
  assert "".join(lines) == "Anna B-X\n' O\ns O\nin O\nBern O\n. O\n\nYes O\n\n"
  write(tmp_path, "Anna\n\n \nYes\n", "a.txt")
  with pytest.raises(errors.InputError, match="(?s)txt:2: an empty.*txt:3: an"):
    data.read(path, file_format="text")


def test_words_labels_and_documents_of_json_lines(tmp_path):
  path = write_json(
    tmp_path,
    {"words": ["Zürich", "won"], "labels": ["B-LOC", "O"], "document": "a"}, "",
    {"tokens": ["x"], "ner_tags": ["O"], "document": "a"},
    {"tokens": ["y"], "ner_tags": ["O"], "document": "b"},
  )
  for labelled in (True, None):
    assert data.read(path, labelled=labelled) == [
      data.Sentence(0, [1, 1], ["Zürich", "won"], ["B-LOC", "O"]),
      data.Sentence(0, [3], ["x"], ["O"]), data.Sentence(1, [4], ["y"], ["O"]),
    ]


GOOD = {"words": ["a"], "labels": ["O"]}


@pytest.mark.parametrize("line, sentence", [
  ("{", "file.jsonl:2: not JSON"),
  ("[1]", "file.jsonl:2: no list of words"),
  ({"text": "a"}, "no list of words, .* called words or tokens; expected"),
  ({"words": []}, "no list of words"),
  ({"words": ["a", " "]}, "no list of words"),
  ({"words": ["a", 1]}, "no list of words"),
  ("[" * 100_000, "nested too deeply"),
  ({"words": ["a"]}, "1 words need as many labels, .* got None"),
  ({"words": ["a"], "labels": ["O", "O"]}, "1 words need as many labels"),
  ({"words": ["a"], "labels": [0]}, r"need as many labels, .* got \[0\]"),
  ({"words": ["a", "b"], "labels": ["O", "I-X"]},
   "file.jsonl:2, word 2: I-X follows O, which iob2 does not have"),
])
def test_what_is_wrong_with_a_line_of_json_is_named(tmp_path, line, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    data.read(write_json(tmp_path, GOOD, line))


def test_all_faults_of_json_lines_are_listed_at_once(tmp_path):
  path = write_json(tmp_path, "{", GOOD, {"words": []}, GOOD, {"words": ["a"]})
  for labelled in (True, None):  # The first that can be read has labels.
    with pytest.raises(errors.InputError) as raised:
      data.read(path, labelled=labelled)
    heading, *lines = str(raised.value).split("\n")
    assert heading == f"{path}: 3 faults; fix them:"
    assert [line.split(": ")[0] for line in lines] == [
      f"  {path}:{number}" for number in (1, 3, 5)
    ]
  with pytest.raises(errors.InputError, match="holds no sentence"):
    data.read(write_json(tmp_path, "", ""))


def test_predictions_are_one_more_column(tmp_path):
  path = write(tmp_path, "-DOCSTART- O\n\na O\nb\tO\r\n\n\nc O \n")
  lines = data.with_predictions(path, "conll", [["B-X", "I-X"], ["O"]])
  assert "".join(lines) == ("-DOCSTART- O O\n\na O B-X\nb\tO\tI-X\n\n\nc O O\n")


def test_predictions_keep_all_other_keys(tmp_path):
  objects = [{"id": 7, "words": ["Zürich"]}, {"words": ["b", "c"]}]
  path = write_json(tmp_path, *objects)
  assert [s.labels for s in data.read(path, labelled=None)] == [None, None]
  predicted = [["B-LOC"], ["O", "O"]]
  lines = list(data.with_predictions(path, "jsonl", predicted))
  assert lines[0] == '{"id": 7, "words": ["Zürich"], "predicted": ["B-LOC"]}\n'
  assert json.loads(lines[1]) == {**objects[1], "predicted": ["O", "O"]}
