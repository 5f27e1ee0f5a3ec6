"""Tests how files of sentences are read, checked and written with labels."""

import json

import pytest

from common import errors
from message_facts import says
from tagging import data, label_schemes, scores

IOB1 = """-DOCSTART- -X- O O

U.N. NNP I-NP I-ORG
official NN I-NP O
Ekeus NNP I-NP I-PER
Anna NNP B-NP B-PER

-DOCSTART- -X- O O

Bern NNP I-NP I-LOC
"""
IOB2 = (
  IOB1.replace("I-ORG", "B-ORG")
  .replace("I-LOC", "B-LOC")
  .replace("I-PER", "B-PER")
)
IOBES = (
  IOB2.replace("B-ORG", "S-ORG")
  .replace("B-LOC", "S-LOC")
  .replace("B-PER", "S-PER")
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


BILOU = IOBES.replace("S-", "U-")


@pytest.mark.parametrize(
  "scheme, text",
  [
    ("iob1", IOB1),
    ("iob2", IOB2),
    ("iobes", IOBES),
    ("bilou", BILOU),
    ("bmes", IOBES),
  ],
)
def test_every_scheme_gives_the_same_entities(tmp_path, scheme, text):
  first, second = read(tmp_path, text, scheme=scheme)
  assert first.words == ["U.N.", "official", "Ekeus", "Anna"]
  assert first.lines == [3, 4, 5, 6] and second.lines == [10]
  assert (first.document, second.document) == (1, 2)
  assert scores.entities(first.labels) == [
    ("ORG", 0, 1),
    ("PER", 2, 3),
    ("PER", 3, 4),
  ]
  assert scores.entities(second.labels) == [("LOC", 0, 1)]


# {(label, next label): schemes that allow it}.
MAY_FOLLOW = {
  ("O", "I-X"): "iob1",
  ("O", "B-X"): "iob2 iobes",
  ("I-X", "B-X"): "iob1 iob2",
  ("I-X", "B-Y"): "iob2",
  ("I-X", "I-Y"): "iob1",
  ("I-X", "I-X"): "iob1 iob2 iobes",
  ("B-X", "I-X"): "iob1 iob2 iobes",
  ("B-X", "O"): "iob1 iob2",
  ("B-X", "E-X"): "iobes",
  ("B-X", "E-Y"): "",
  ("E-X", "S-X"): "iobes",
  ("E-X", "E-X"): "",
  ("S-X", "B-X"): "iobes",
  ("O", "O"): "iob1 iob2 iobes",
}


@pytest.mark.parametrize("before, label", MAY_FOLLOW)
def test_which_labels_may_follow(before, label):
  tags = {"iob1": "IOB", "iob2": "IOB", "iobes": "IOBES"}
  allowed = [
    scheme
    for scheme, known in tags.items()
    if label[0] in known
    and before[0] in known
    and label_schemes.may_follow(before, label, scheme)
  ]
  assert allowed == MAY_FOLLOW[before, label].split()


@pytest.mark.parametrize(
  "text, options, words, labels",
  [
    (
      "B-NP\tNew York\tNNP\nI-NP\tis\tVB\n",
      {"word_column": 1, "label_column": 0},
      ["New York", "is"],
      ["B-NP", "I-NP"],
    ),
    (
      "a DT O\nb -LRB- O\n",
      {"label_column": 1, "scheme": "none"},
      ["a", "b"],
      ["DT", "-LRB-"],
    ),
    ("a\nb\n", {"labelled": False}, ["a", "b"], None),
    # Lines may end as on Windows, and words may contain no-break spaces.
    ("a\u00a0b O\r\nc O \r\n\r\n", {}, ["a\u00a0b", "c"], ["O", "O"]),
  ],
)
def test_columns_are_chosen(tmp_path, text, options, words, labels):
  (sentence,) = read(tmp_path, text, **options)
  assert (sentence.words, sentence.labels) == (words, labels)


@pytest.mark.parametrize(
  "text, options, fault",
  [
    ("a DT O\n", {"label_column": 1}, says("'DT'", "not", "none")),
    ("\na O\n\nb c O\n", {}, says("4", "3", "2", "every")),
    ("a O\n", {"label_column": 2}, says("1", "--label_column=2", "2", "-2")),
    ("a O\n", {"word_column": -3}, "--word_column=-3, but the column count"),
    ("\n-DOCSTART- O\n\n\n", {}, "holds no sentence, only empty"),
    (
      "a O\nb B-X\n\nc O\n",
      {"scheme": "iobes"},
      "file.conll:2 .end of the sent",
    ),
  ],
)
def test_files_that_are_refused(tmp_path, text, options, fault):
  with pytest.raises(errors.InputError, match=fault):
    read(tmp_path, text, **options)


def test_all_faults_are_listed_at_once(tmp_path):
  text = "a O\n\nb c O\n\nd I-X\ne\n\nf O\n\n" + "g X\n\n" * 20
  with pytest.raises(errors.InputError) as raised:
    read(tmp_path, text)
  heading, *lines = str(raised.value).split("\n")
  assert heading.endswith("file.conll: 22 faults; fix them:")
  assert "file.conll:3: column count 3, but 2 in line 1" in lines[0]
  assert "file.conll:6: column count 1, but 2 in line 1" in lines[1]
  assert "file.conll:10: 'X' is not a label of iob2" in lines[2]
  assert len(lines) == 21 and lines[-1] == "  ... and 2 more"


def test_empty_sentences_are_skipped_with_one_warning(tmp_path, caplog):
  text = "\n-DOCSTART- O\n\na O\n\n\n\nb O\n"
  with caplog.at_level("WARNING"):
    sentences = read(tmp_path, text)
  assert [sentence.words for sentence in sentences] == [["a"], ["b"]]
  (record,) = caplog.records
  assert record.getMessage().endswith(
    "file.conll: skipped 2 empty sentences, the first at line 6"
  )


def test_the_labels_are_sorted_with_o_first(tmp_path):
  sentences = read(tmp_path, IOB1, scheme="iob1")
  labels = data.label_list(sentences)
  assert labels == ["O", "B-PER", "I-LOC", "I-ORG", "I-PER"]
  assert data.label_ids(sentences, labels, "f") == [[3, 0, 4, 1], [2]]


def test_raw_sentences(tmp_path):
  path = write(tmp_path, "Anna's in Bern.\nYes\n", "a.txt")
  sentences = data.read(path, labelled=None, file_format="text")
  assert [s.words for s in sentences] == [
    ["Anna", "'", "s", "in", "Bern", "."],
    ["Yes"],
  ]
  assert [s.labels for s in sentences] == [None, None]
  assert sentences[1].lines == [2]
  lines = data.with_predictions(
    path, "text", [["B-X", *"OOOOO"], ["O"]], "iob2"
  )
  assert "".join(lines) == "Anna B-X\n' O\ns O\nin O\nBern O\n. O\n\nYes O\n\n"
  write(tmp_path, "Anna\n\n \nYes\n", "a.txt")
  with pytest.raises(errors.InputError, match="(?s)txt:2: an empty.*txt:3: an"):
    data.read(path, file_format="text")


def test_words_labels_and_documents_of_json_lines(tmp_path):
  path = write_json(
    tmp_path,
    {"words": ["Zürich", "won"], "labels": ["B-LOC", "O"], "document": "a"},
    "",
    {"tokens": ["x"], "ner_tags": ["O"], "document": "a"},
    {"tokens": ["y"], "ner_tags": ["O"], "document": "b"},
  )
  for labelled in (True, None):
    assert data.read(path, labelled=labelled) == [
      data.Sentence(0, [1, 1], ["Zürich", "won"], ["B-LOC", "O"]),
      data.Sentence(0, [3], ["x"], ["O"]),
      data.Sentence(1, [4], ["y"], ["O"]),
    ]


GOOD = {"words": ["a"], "labels": ["O"]}


@pytest.mark.parametrize(
  "line, sentence",
  [
    ("{", "file.jsonl:2: not JSON"),
    ("[1]", says("file.jsonl:2", "no")),
    ({"txt": "a"}, says("'words'", "'tokens'", "no", "expected")),
    ({"text": " "}, "no list of non-empty words"),
    ({"text": "a"}, says("'entities'", "'labels'", "no")),
    ({"words": []}, "no list of non-empty words"),
    ({"words": ["a", " "]}, "no list of non-empty words"),
    ({"words": ["a", 1]}, "no list of non-empty words"),
    ("[" * 100_000, "nested too deeply"),
    ({"words": ["a"]}, "expected a list of strings, .* got None"),
    ({"words": ["a"], "labels": ["O", "O"]}, says("'labels'", "'ner_tags'")),
    ({"words": ["a"], "labels": [0]}, says("--label_", "labels")),
    (
      {"words": ["a", "b"], "labels": ["O", "I-X"]},
      says("file.jsonl:2", "2", "I-X", "not"),
    ),
  ],
)
def test_faults_in_a_line_of_json_are_named(tmp_path, line, sentence):
  with pytest.raises(errors.InputError, match=sentence):
    data.read(write_json(tmp_path, GOOD, line))


def test_all_faults_of_json_lines_are_listed_at_once(tmp_path):
  path = write_json(tmp_path, "{", GOOD, {"words": []}, GOOD, {"words": ["a"]})
  for labelled in (True, None):  # The first valid line has labels.
    with pytest.raises(errors.InputError) as raised:
      data.read(path, labelled=labelled)
    heading, *lines = str(raised.value).split("\n")
    assert heading == f"{path}: 3 faults; fix them:"
    assert [line.split(": ")[0] for line in lines] == [
      f"  {path}:{number}" for number in (1, 3, 5)
    ]
  with pytest.raises(errors.InputError, match="holds no sentence"):
    data.read(write_json(tmp_path, "", ""))


def test_a_single_column_has_no_labels(tmp_path):
  path = write(tmp_path, "to\nAda\n")
  (sentence,) = data.read(path, labelled=None, label_column=1)
  assert sentence.words == ["to", "Ada"] and sentence.labels is None


def test_predictions_are_appended_as_a_column(tmp_path):
  path = write(tmp_path, "-DOCSTART- O\n\na O\nb\tO\r\n\n\nc O \n")
  lines = data.with_predictions(path, "conll", [["B-X", "I-X"], ["O"]], "iob2")
  assert "".join(lines) == ("-DOCSTART- O O\n\na O B-X\nb\tO\tI-X\n\n\nc O O\n")
  lines = data.with_predictions(
    path, "conll", [["B-X y", "I-X y"], ["O"]], "iob2"
  )
  path = write(tmp_path, "".join(lines))
  assert [s.labels for s in data.read(path)] == [["B-X y", "I-X y"], ["O"]]


@pytest.mark.parametrize(
  "name, value, labels",
  [
    ("tags", ["O", "B-PER"], ("O", "B-PER")),
    ("ner", ["O", "B-PER"], ("O", "B-PER")),
    # Other programs use the short names for something else.
    ("tags", ["news"], None),
    ("tags", "O B-PER", None),
    ("tags", None, None),
  ],
)
def test_short_names_of_labels_count_if_there_is_one_per_word(
  tmp_path, name, value, labels
):
  path = write_json(tmp_path, {"words": ["to", "Ada"], name: value})
  (sentence,) = data.read(path, labelled=None)
  assert sentence.labels == (labels and [*labels])


def test_predictions_keep_all_other_keys(tmp_path):
  objects = [{"id": 7, "words": ["Zürich"]}, {"words": ["b", "c"]}]
  path = write_json(tmp_path, *objects)
  assert [s.labels for s in data.read(path, labelled=None)] == [None, None]
  predicted = [["B-LOC"], ["O", "O"]]
  lines = list(data.with_predictions(path, "jsonl", predicted, "iob2"))
  assert lines[0] == '{"id": 7, "words": ["Zürich"], "predicted": ["B-LOC"]}\n'
  assert json.loads(lines[1]) == {**objects[1], "predicted": ["O", "O"]}


# Files of other programs.


@pytest.mark.parametrize(
  "scheme, sequence, wrong",
  [
    ("iobes", "B-X I-X I-X E-X S-X S-Y", "L-X"),
    ("bilou", "B-X I-X I-X L-X U-X U-Y", "E-X"),
    ("bmes", "B-X M-X M-X E-X S-X S-Y", "I-X"),
  ],
)
def test_schemes_with_other_letters(tmp_path, scheme, sequence, wrong):
  labels = sequence.split()
  text = "".join(f"w {label}\n" for label in labels)
  (sentence,) = read(tmp_path, text, scheme=scheme)
  assert sentence.labels == labels
  assert scores.entities(labels) == [("X", 0, 4), ("X", 4, 5), ("Y", 5, 6)]
  with pytest.raises(errors.InputError, match=f"{wrong}' is not a label of"):
    read(tmp_path, f"w {wrong}\n", scheme=scheme)
  with pytest.raises(errors.InputError, match=":2: O follows B-X"):
    read(tmp_path, "w B-X\nw O\n", scheme=scheme)
  with pytest.raises(errors.InputError, match=":1 .end of the sen.*: O f"):
    read(tmp_path, "w B-X\n", scheme=scheme)


def test_invalid_labels_count_if_lenient(tmp_path, caplog):
  text = "a O\nb I-X\nc I-X\nd I-Y\n"
  with pytest.raises(errors.InputError, match=":2: I-X follows O, .*--lenient"):
    read(tmp_path, text)
  with caplog.at_level("WARNING"):
    (sentence,) = read(tmp_path, text, lenient=True)
  assert scores.entities(sentence.labels) == [("X", 1, 3), ("Y", 3, 4)]
  assert "2 labels are in an order that iob2 does not allow" in caplog.text
  assert "file.conll:2: I-X follows O" in caplog.text
  with pytest.raises(errors.InputError, match="'Z' is not a label"):
    read(tmp_path, "a Z\n", lenient=True)


def test_types_without_tags(tmp_path):
  text = "Anna PER\nLee PER\nin O\nBern LOC\nBob PER\n"
  (sentence,) = read(tmp_path, text, scheme="plain")
  predicted = ["PER", "O", "O", "LOC", "PER"]
  scored = scores.evaluate([sentence.labels], [predicted], 0.0, "plain")
  # Two of three entities are right: LOC and the last PER.
  assert scored.results["precision"] == scored.results["recall"] == 2 / 3
  assert scored.results["f1_LOC"] == 1.0 and scored.results["accuracy"] == 0.8


CONLLU = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_

# text = #
1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
"""


def test_conllu(tmp_path):
  path = write(tmp_path, CONLLU)
  first, second = data.read(path, scheme="none", word_column=1, label_column=3)
  assert (first.words, first.labels) == (["Vamos", "nos"], ["VERB", "PRON"])
  assert (second.words, second.labels, second.lines) == (["#"], ["SYM"], [9])
  lines = list(
    data.with_predictions(path, "conll", [["A", "B"], ["C"]], "iob2")
  )
  ends = ["", "", "\t_", "\tA", "\tB", "\t_", "", "", "\tC"]
  assert [line.rstrip("\n") for line in lines] == [
    f"{line}{end}" for line, end in zip(CONLLU.splitlines(), ends)
  ]


def test_numbers_in_place_of_words_are_reported(tmp_path, caplog):
  path = write(tmp_path, "1\tAnna\tB-PER\n2\twon\tO\n\n1\tYes\tO\n")
  data.read(path, word_column=1)
  assert not caplog.text
  data.read(path)
  assert "the words of each sentence are the numbers 1" in caplog.text


def test_comments_and_words_that_begin_with_a_hash(tmp_path):
  text = "# id 7\tdomain=en\n# O\n#tag B-X\n\n# O\n#\tid\t8\n"
  with pytest.raises(errors.InputError, match=says(":7", "3", "2")):
    read(tmp_path, text.replace("# id 7\tdomain=en", "# id 7 domain=en\nw O"))
  first, second = read(tmp_path, "# id 7 x\nw O\n# O\n\n#a O\n")
  assert (first.words, second.words) == (["w", "#"], ["#a"])


def test_label_numbers_are_replaced_by_names(tmp_path):
  path = write_json(tmp_path, {"tokens": ["a", "b"], "ner_tags": [0, 2]})
  names = ["O", "B-PER", "B-LOC"]
  (sentence,) = data.read(path, label_names=names)
  assert sentence.labels == ["O", "B-LOC"]
  message = ":1: label 2, but --label_names has only the labels from 0 to 1"
  with pytest.raises(errors.InputError, match=message):
    data.read(path, label_names=names[:2])
  path = write_json(tmp_path, {"tokens": ["a", "b"], "ner_tags": [2, -1]})
  with pytest.raises(errors.InputError, match=":1: label -1, but"):
    data.read(path, label_names=names)
