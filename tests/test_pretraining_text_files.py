"""Text in .gz, .bz2, .xz, .zst, Parquet and JSON lists, as lines of text."""

import bz2
import gzip
import io
import json
import lzma

import pytest

from common import errors
from pretraining import data, text_files
from pretraining.text_files import json_list

DOCUMENTS = [
  "Zürich lies at a lake.\nIt is old.",
  "Rain.",
  "雨が降る。\nまた。",
]
PLAIN = "\n\n".join(DOCUMENTS).encode() + b"\n"
LINES = "".join(
  json.dumps({"text": text, "url": "x"}) + "\n" for text in DOCUMENTS
).encode()
LIST = json.dumps([{"text": text} for text in DOCUMENTS], indent=1).encode()


def zstandard(content):
  pyarrow = pytest.importorskip("pyarrow")
  sink = pyarrow.BufferOutputStream()
  with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
    stream.write(content)
  return sink.getvalue().to_pybytes()


def parquet(columns):
  pyarrow = pytest.importorskip("pyarrow")
  from pyarrow import parquet as pq

  sink = io.BytesIO()
  pq.write_table(pyarrow.table(columns), sink, row_group_size=2)
  return sink.getvalue()


PACKERS = {
  "gzip": gzip.compress,
  "bzip2": bz2.compress,
  "xz": lzma.compress,
  "zstandard": zstandard,
}
CONTENTS = {"plain": PLAIN, "json lines": LINES, "json list": LIST}
NESTED = [{"text": [text]} for text in DOCUMENTS]


def lines_of(path, content):
  path.write_bytes(content)
  pieces = data.whole_files([str(path)])
  return list(data.read_lines(pieces, joined=True))


def documents(lines):
  """Returns the lines of each document, without blank lines."""
  text = "\n".join(lines).strip("\n")
  return [part.strip("\n") for part in text.split("\n\n")]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("content", CONTENTS)
def test_compressed_text_is_the_text(tmp_path, packer, content):
  """Two members one after another are one text, as in the programs."""
  whole = CONTENTS[content]
  packed = PACKERS[packer](whole)
  assert documents(lines_of(tmp_path / "a", packed)) == DOCUMENTS
  if content != "json list":
    half = whole.index(b"\n") + 1
    packed = PACKERS[packer](whole[:half]) + PACKERS[packer](whole[half:])
    assert documents(lines_of(tmp_path / "b", packed)) == DOCUMENTS


@pytest.mark.parametrize("content", CONTENTS)
def test_text_without_compression_is_read_as_before(tmp_path, content):
  assert documents(lines_of(tmp_path / "a", CONTENTS[content])) == DOCUMENTS


@pytest.mark.parametrize(
  "columns",
  [
    {"id": [1, 2, 3], "text": DOCUMENTS},
    {"url": ["x"] * 3, "text": DOCUMENTS},
    {"body": DOCUMENTS, "id": [1, 2, 3]},
    {"document": NESTED, "url": ["x"] * 3},
  ],
  ids=["text", "text and others", "only strings", "nested"],
)
def test_a_row_of_parquet_is_a_document(tmp_path, columns):
  assert documents(lines_of(tmp_path / "a", parquet(columns))) == DOCUMENTS


def test_a_list_of_strings_is_a_list_of_documents(tmp_path):
  content = json.dumps(DOCUMENTS).encode()
  assert documents(lines_of(tmp_path / "a", content)) == DOCUMENTS


def test_elements_of_any_length_are_read(tmp_path):
  """Longer than a block, and cut by its end in every place."""
  texts = ["ü" * 700_000, "b" * 3_000_000, *(str(n) for n in range(300_000))]
  content = json.dumps(texts, ensure_ascii=False).encode()
  lines = lines_of(tmp_path / "a", content)
  assert [line for line in lines if line] == texts


@pytest.mark.parametrize(
  "content", ["[CLS] is a token.\n", "[\n", "[1] A note.\n", "{a}\n"]
)
def test_text_that_starts_with_a_bracket_stays_text(tmp_path, content):
  assert lines_of(tmp_path / "a", content.encode()) == [content[:-1]]


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("size", [1, 40, 10**6])
def test_shards_of_compressed_text_are_those_of_the_text(
  tmp_path, packer, size
):
  """Each shard is read from the middle of the stream."""
  content = b"".join(b"Line %d.\n\n" % n for n in range(30))
  plain, packed = tmp_path / "plain", tmp_path / "packed"
  plain.write_bytes(content)
  packed.write_bytes(PACKERS[packer](content))
  shards = [
    data.plan_shards(data.whole_files([str(path)]), size)
    for path in (plain, packed)
  ]
  ranges = [
    [[piece[1:] for piece in shard] for shard in planned] for planned in shards
  ]
  assert ranges[0] == ranges[1]
  texts = [
    [list(data.read_lines(shard, joined=True)) for shard in planned]
    for planned in shards
  ]
  assert texts[0] == texts[1]


def test_a_stream_can_be_read_again_and_in_any_place(tmp_path):
  path = tmp_path / "a.gz"
  content = bytes(range(256)) * 9000  # More than two blocks.
  path.write_bytes(gzip.compress(content))
  with text_files.open_text(str(path)) as stream:
    assert stream.seek(0, io.SEEK_END) == len(content)
    for offset in (1_500_000, 3, 2_000_001, 0):
      assert stream.seek(offset) == stream.tell() == offset
      assert stream.read(300) == content[offset : offset + 300]
    assert stream.raw.seek(7) == 7 and stream.raw.seek(2, io.SEEK_CUR) == 9
    assert stream.raw.read(3) == content[9:12]
    with pytest.raises(ValueError, match="cannot seek"):
      stream.raw.seek(-3, io.SEEK_END)
    assert stream.seek(10 * len(content)) == len(content)
    assert stream.read() == b""
    source = stream.raw._source
  assert source.closed and stream.closed


@pytest.mark.parametrize("packer", PACKERS)
def test_a_damaged_file_is_named(tmp_path, packer):
  packed = PACKERS[packer](PLAIN * 99)
  with pytest.raises(errors.InputError, match="damaged or incomplete") as cut:
    lines_of(tmp_path / "cut", packed[: len(packed) // 2])
  assert str(tmp_path / "cut") in str(cut.value)


@pytest.mark.parametrize(
  "content, fact",
  [
    (b'["a", "b"', "got the end"),
    (b'["a" "b"]', "expected ,"),
    (b'["a", "b"] ["c"]', "follows the end"),
    (b'[{"text": "a"}, {"body": "b"}]', "element 2 .* body"),
    (b'[{"text": 3}]', "element 1 .* text"),
    (b'["a", 3]', "element 2 of its list is a int"),
    (b'["a", "\xff"]', "not UTF-8"),
  ],
)
def test_a_fault_in_a_list_is_named(tmp_path, content, fact):
  with pytest.raises(errors.InputError, match=fact) as raised:
    lines_of(tmp_path / "list.json", content)
  assert "list.json" in str(raised.value)


def test_an_element_that_never_ends_is_refused(tmp_path, monkeypatch):
  """The limit counts what follows the last element."""
  monkeypatch.setattr(json_list, "_LONGEST_ELEMENT", 8)
  monkeypatch.setattr(json_list, "_BLOCK_BYTES", 4)
  lines = lines_of(tmp_path / "list", b'["123", "456", "789"]')
  assert [line for line in lines if line] == ["123", "456", "789"]
  whole = tmp_path / "long"
  whole.write_bytes(b'["123", "' + b"4" * 99 + b'"]')
  with open(whole, "rb") as stream:
    blocks = json_list.blocks("long", stream)
    assert json.loads(next(blocks)) == {"text": "123"}
    with pytest.raises(errors.InputError, match="behind element 1 of the list"):
      next(blocks)
    assert stream.tell() < 99


def test_rows_without_text_are_no_documents(tmp_path):
  content = parquet({"text": ["a", None, "b", "c"], "n": [1, 2, 3, 4]})
  lines = lines_of(tmp_path / "a", content)
  assert lines == ["a", "", "b", "", "c", ""]


def test_the_column_called_text_is_read_before_fields_of_others(
  tmp_path, caplog
):
  caplog.set_level("INFO", logger="absl")
  for column, is_named in (("text", False), ("body", True)):
    content = parquet({"n": [1], column: ["a"]})
    assert lines_of(tmp_path / column, content) == ["a", ""]
    assert ("is column body" in caplog.text) == is_named
  nested = [{"text": "no", "id": "x"}]
  content = parquet({"meta": nested, "text": ["yes"]})
  assert lines_of(tmp_path / "both", content) == ["yes", ""]
  content = parquet({"meta": nested})
  assert lines_of(tmp_path / "nested", content) == ["no", ""]


@pytest.mark.parametrize(
  "columns, fact",
  [
    ({"id": [1]}, "id"),
    ({"title": ["a"], "body": ["b"]}, "several: title, body"),
  ],
)
def test_a_table_without_one_text_is_refused(tmp_path, columns, fact):
  with pytest.raises(errors.InputError, match=fact):
    lines_of(tmp_path / "a.parquet", parquet(columns))


def test_damaged_parquet_is_named(tmp_path):
  content = parquet({"text": DOCUMENTS})
  with pytest.raises(errors.InputError, match="a.parquet"):
    lines_of(tmp_path / "a.parquet", content[:-20])


def test_every_format_is_tested():
  """compressed, json_list and parquet are the modules of the folder."""
  names = [
    module.__name__.rpartition(".")[2] for module in text_files._formats()
  ]
  assert names == ["compressed", "json_list", "parquet"]
