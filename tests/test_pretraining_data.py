"""Tests pretraining/data.py: pieces of files, vocabularies, corpus arrays."""

import numpy as np
import pytest

from common import errors
from pretraining import data
from pretraining.data import Piece

WORDS = {
  token: index
  for index, token in enumerate("[PAD] [CLS] [SEP] [MASK] a ##b".split())
}
VOCABULARY = data.Vocabulary(WORDS)


def count_letters(lines):
  lengths = [sum(character.isalpha() for character in line) for line in lines]
  return [5] * sum(lengths), lengths, None


def test_blank_lines_end_documents_and_wordless_lines_do_not():
  lines = ["", "aa", "\u200b", "b \n", "\u00a0\n", "\x1c", "", "c", "d e"]
  corpus = data.read_corpus(lines, count_letters, VOCABULARY)
  assert list(corpus.document_starts) == [0, 2, 4]
  assert list(corpus.sentence_starts) == [0, 2, 3, 4, 6]
  assert corpus.ids.tolist() == [5] * 6
  assert (corpus.num_documents, corpus.num_sentences) == (2, 4)
  assert corpus.num_words == 6  # Including U+200B.
  assert corpus.sentences_of(1) == (2, 4)


def test_blocks_of_lines_are_one_text(monkeypatch):
  lines = ["a", "b", "", "cc", "d", "", "e"]
  whole = data.read_corpus(lines, count_letters, VOCABULARY)
  monkeypatch.setattr(data, "_LINES_PER_BLOCK", 2)
  parts = data.read_corpus(lines, count_letters, VOCABULARY)
  assert parts.ids.tolist() == whole.ids.tolist()
  assert parts[1:] == whole[1:]


@pytest.mark.parametrize("lines", [[], ["", " \n"], ["\u200b"]])
def test_text_without_sentences(lines):
  corpus = data.read_corpus(lines, count_letters, VOCABULARY)
  assert corpus.num_documents == corpus.num_sentences == len(corpus.ids) == 0


def test_vocabulary():
  vocabulary = data.Vocabulary({**WORDS, "##c": 70000})
  assert (*vocabulary.frame[:2], vocabulary.mask_id) == (1, 2, 3)
  assert vocabulary.ids.tolist() == [0, 1, 2, 3, 4, 5, 70000]
  assert np.flatnonzero(vocabulary.continues).tolist() == [5, 70000]
  assert vocabulary.dtype == vocabulary.ids.dtype == np.uint32
  assert data.Vocabulary(WORDS).dtype == np.uint16
  for largest, dtype in ((65535, np.uint16), (65536, np.uint32)):
    assert data.Vocabulary({**WORDS, "##c": largest}).dtype == dtype


@pytest.mark.parametrize(
  "more, unk_id", [({}, None), ({"<unk>": 6}, 6), ({"<unk>": 6, "[UNK]": 7}, 7)]
)
def test_the_id_of_unknown_words(more, unk_id):
  assert data.Vocabulary({**WORDS, **more}).unk_id == unk_id


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[MASK]"])
def test_vocabulary_without_a_special_token(token):
  vocab = {name: index for name, index in WORDS.items() if name != token}
  with pytest.raises(errors.InputError) as error:
    data.Vocabulary(vocab)
  assert f"needs {token}, which" in str(error.value)


@pytest.mark.parametrize("flags", [None, b"\x00\x00"])
def test_the_vocabulary_marks_continuations_unless_segmented(flags):
  corpus = data.read_corpus(["ab"], lambda _: ([4, 5], [2], flags), VOCABULARY)
  assert corpus.continues == (flags or b"\x00\x01")


def write(path, text):
  path.write_bytes(text.encode("utf-8"))
  return str(path)


def test_small_files_share_a_shard_and_large_ones_are_cut(tmp_path):
  texts = {"a": "a\n", "b": "b\n\nb\n", "empty": "", "c": "c\n\n" * 4, "d": "d"}
  files = [write(tmp_path / name, text) for name, text in texts.items()]
  a, b, _, c, d = files
  assert data.plan_shards(data.whole_files(files), 4) == [
    [Piece(a, 0, 2), Piece(b, 0, 2)],
    [Piece(b, 2, 5), Piece(c, 0, 2)],
    [Piece(c, 2, 8)],
    [Piece(c, 8, 12)],
    [Piece(d, 0, 1)],
  ]
  assert data.plan_shards(data.whole_files(files[2:3]), 4) == []


def test_a_long_document_is_cut_at_lines(tmp_path):
  lines = [f"line {n} é" for n in range(50)]
  path = write(tmp_path / "a", "\n".join(lines))
  shards = data.plan_shards(data.whole_files([path]), 60)
  assert all(60 <= p.end - p.start < 120 for (p,) in shards[:-1])
  parts = [documents_of(pieces) for pieces in shards]
  assert all(len(documents) == 1 for documents in parts)
  assert [line for ((*document,),) in parts for line in document] == lines


JSON = '{"text": "b"}\n'


@pytest.mark.parametrize(
  "text, shard_bytes, end",
  [
    # A blank line, but not behind as many bytes as a shard has.
    ("abc\nabc\n\nx\n", 5, 8),
    ("abc\nabc\n\nx\n", 4, 4),
    # A document that begins there, but no line within another document.
    (f"a\n{JSON}\nx\n", 2, 2),
    (f"{'x' * 40}\nbc\n{JSON}\nx\n", 30, 58),
  ],
)
def test_where_the_first_shard_ends(tmp_path, text, shard_bytes, end):
  path = write(tmp_path / "a", text)
  (piece, *_), *_ = data.plan_shards(data.whole_files([path]), shard_bytes)
  assert piece == Piece(path, 0, end)


def test_a_cut_needs_no_utf8(tmp_path):
  """The error is raised, with the line's number, when the text is read."""
  (tmp_path / "a").write_bytes(b"a\n\xff\n\nb\n")
  shards = data.plan_shards(data.whole_files([str(tmp_path / "a")]), 2)
  assert [piece.end for (piece,) in shards] == [2, 4, 7]


TEXT = "one\n\ntwo\nzwei \n\u00a0\n\n\nthree é\n\nfour"


@pytest.mark.parametrize(
  "text", [TEXT, f"{TEXT}\n", f"{TEXT}\n\n", f"\n{TEXT}"]
)
def test_every_document_is_in_one_piece_wherever_it_is_cut(tmp_path, text):
  path = write(tmp_path / "a", text)
  size = len(text.encode())
  documents = [["one"], ["two", "zwei"], ["three é"], ["four"]]
  # No document is longer than 10 bytes with its line ends.
  for shard_bytes in range(10, size + 1):
    shards = data.plan_shards(data.whole_files([path]), shard_bytes)
    ends = [pieces[-1].end for pieces in shards]
    assert ends == sorted(set(ends)) and ends[-1] == size
    assert sum(map(documents_of, shards), []) == documents, shard_bytes


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_carriage_returns_move_no_cut(tmp_path, scheme):
  """Carriage returns count as bytes, and those inside a line are kept."""
  text = "one\r\n\r\ntwo\rzwei\r\n\r\nthree\r\n"
  path = scheme + write(tmp_path / "a", text)
  for size in range(12, len(text)):
    shards = data.plan_shards(data.whole_files([path]), size)
    documents = sum(map(documents_of, shards), [])
    assert documents == [["one"], ["two\rzwei"], ["three"]], size


def documents_of(pieces, joined=False):
  documents = [[]]
  for line in data.read_lines(pieces, joined=joined):
    if line.strip():
      documents[-1].append(line.strip())
    elif documents[-1]:
      documents.append([])
  return [document for document in documents if document]


def test_files_end_documents_unless_they_are_joined(tmp_path):
  pieces = data.whole_files(
    [write(tmp_path / "a", "1\n\n2\n"), write(tmp_path / "b", "3\n")]
  )
  assert documents_of(pieces) == [["1"], ["2"], ["3"]]
  assert documents_of(pieces, joined=True) == [["1"], ["2", "3"]]
  lines = [*data.read_lines(pieces, joined=False)]
  assert lines == ["1", "", "2", "", "3", ""]


def test_bad_utf8_names_the_line_of_the_file(tmp_path):
  path = tmp_path / "a"
  path.write_bytes(b"\none\ntwo\n\nthree\nb\xe9d\n")
  for piece in [Piece(str(path), 0, 21), Piece(str(path), 5, 21)]:
    with pytest.raises(errors.InputError, match="a:6: not UTF-8.* 0xe9"):
      documents_of([piece])


@pytest.mark.parametrize(
  "line, expected",
  [
    ('{"id": 7, "text": "One.\\nTwo."}', ["One.", "Two.", ""]),
    ('\ufeff{"text": "One."}', ["One.", ""]),
    ('{"title": "One."}', ['{"title": "One."}']),
    ("{ one }", ["{ one }"]),
    ("<b> is bold", ["<b> is bold"]),
    ("a {b}", ["a {b}"]),
    ("", [""]),
  ],
)
def test_json_objects_are_documents(line, expected):
  assert data.text_lines("a.txt", line) == expected


@pytest.mark.parametrize("line", ['<doc id="1" url="x">', "</doc>", "<doc>"])
def test_tags_of_other_programs_are_refused(line):
  with pytest.raises(
    errors.InputError, match="a.txt: '<.*tag of wikiextractor"
  ):
    data.text_lines("a.txt", line)


def corpus_of(*documents):
  """Returns a Corpus; each document is a list of its sentences' lengths."""
  lengths = [length for document in documents for length in document]
  starts = np.cumsum([0, *map(len, documents)])
  return data.Corpus(
    np.zeros(sum(lengths), np.uint16), np.cumsum([0, *lengths]), starts, b"", 0
  )


@pytest.mark.parametrize(
  "documents, warning",
  [
    ([[3], [4], [5, 6]], "67% of the documents have one sent"),
    ([[3], [4, 1], [5, 6]], ""),
    ([[3], [4, 1]], ""),  # Half of the documents.
    ([[40, 3], [9, 8]], "50% of the tokens are not used"),
    ([[12, 3], [9, 8]], ""),
    ([[12, 8]], ""),  # A tenth of the tokens.
    ([[13, 7]], "15% of the tokens are not used"),
  ],
)
def test_unsuitable_text_gives_a_warning(documents, warning, caplog):
  data.warn_of_shape(corpus_of(*documents), 10)
  assert (warning in caplog.text) if warning else not caplog.text
