"""text_shards: cutting files, and every document in one piece."""

import pytest

from common import errors
from pretraining import text_shards
from pretraining.text_shards import Piece


def write(path, text):
  path.write_bytes(text.encode("utf-8"))
  return str(path)


def test_small_files_share_a_shard_and_large_ones_are_cut(tmp_path):
  files = [
    write(tmp_path / name, "x" * size)
    for name, size in {"a": 3, "b": 4, "empty": 0, "c": 12, "d": 1}.items()
  ]
  a, b, _, c, d = files
  assert text_shards.plan_shards(files, 5) == [
    [Piece(a, 0, 3), Piece(b, 0, 2)],
    [Piece(b, 2, 4), Piece(c, 0, 3)],
    [Piece(c, 3, 8)],
    [Piece(c, 8, 12), Piece(d, 0, 1)],
  ]


TEXT = "one\n\ntwo\nzwei \n\u00a0\n\n\nthree é\n\nfour"


@pytest.mark.parametrize(
  "text", [TEXT, f"{TEXT}\n", f"{TEXT}\n\n", f"\n{TEXT}"]
)
def test_every_document_is_in_one_piece_wherever_the_file_is_cut(
  tmp_path, text
):
  path = write(tmp_path / "a", text)
  size = len(text.encode())
  documents = [["one"], ["two", "zwei"], ["three é"], ["four"]]
  for first in range(size + 1):
    for second in range(first, size + 1):
      cuts = sorted({0, first, second, size})
      pieces = [Piece(path, *cut) for cut in zip(cuts, cuts[1:])]
      found = [documents_of([piece]) for piece in pieces]
      assert sum(found, []) == documents, cuts


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_carriage_returns_move_no_cut(tmp_path, scheme):
  """They count as bytes of the file, and one inside a line stays there."""
  text = "one\r\n\r\ntwo\rzwei\r\n\r\nthree\r\n"
  path = scheme + write(tmp_path / "a", text)
  for cut in range(1, len(text)):
    pieces = [Piece(path, 0, cut), Piece(path, cut, len(text))]
    found = [documents_of([piece]) for piece in pieces]
    assert sum(found, []) == [["one"], ["two\rzwei"], ["three"]], cut


def documents_of(pieces, **options):
  documents = [[]]
  for line in text_shards.read_lines(pieces, **options):
    if line.strip():
      documents[-1].append(line.strip())
    elif documents[-1]:
      documents.append([])
  return [document for document in documents if document]


def test_files_end_documents_unless_they_are_joined(tmp_path):
  pieces = text_shards.whole_files(
    [write(tmp_path / "a", "1\n\n2\n"), write(tmp_path / "b", "3\n")]
  )
  assert documents_of(pieces) == [["1"], ["2"], ["3"]]
  assert documents_of(pieces, joined=True) == [["1"], ["2", "3"]]


def test_paragraphs_become_sentences(tmp_path):
  pieces = text_shards.whole_files(
    [write(tmp_path / "a", "A b. C d.\nE.\n\nF? G.")]
  )
  assert documents_of(pieces, split_sentences=True) == [
    ["A b.", "C d.", "E."], ["F?", "G."]
  ]


ARTICLES = """<doc id="1" title="A">
A

First one. Second one.

Third one.
</doc>
<doc id="2" title="B">
B is here.

</doc>
"""


def test_articles_are_documents_and_blank_lines_do_not_end_them(tmp_path):
  path = write(tmp_path / "wiki", ARTICLES)
  documents = [
    ["A", "First one.", "Second one.", "Third one."], ["B is here."]
  ]
  for cut in range(1, len(ARTICLES) + 1):
    pieces = [Piece(path, 0, cut), Piece(path, cut, len(ARTICLES))]
    found = [documents_of([piece], split_sentences=True) for piece in pieces]
    assert sum(found, []) == documents, cut


def test_bad_utf8_names_the_line_of_the_file(tmp_path):
  path = tmp_path / "a"
  path.write_bytes(b"one\n\ntwo\n\nthree\nb\xe9d\n")
  for piece in [Piece(str(path), 0, 22), Piece(str(path), 6, 22)]:
    with pytest.raises(errors.InputError, match="a:6: not UTF-8.* 0xe9"):
      list(text_shards.read_lines([piece]))
