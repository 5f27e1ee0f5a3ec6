"""Records of SQuAD windows, against those of the original."""

import gzip
import pathlib

import numpy as np
import pytest

import data_files
import errors
import squad_data
import squad_input
import squad_windows
import tokenization

GOLDEN = pathlib.Path(__file__).parent / "golden" / "squad" / "run"
LENGTHS = squad_windows.Lengths(64, 20, 16)


@pytest.fixture(scope="module")
def tokenizer():
  return tokenization.FullTokenizer(str(GOLDEN / "model" / "vocab.txt"))


@pytest.fixture
def read(tmp_path):
  """A function that reads "train" or "dev"."""

  def read_file(name):
    path = tmp_path / f"{name}.json"
    packed = (GOLDEN / f"{name}.json.gz").read_bytes()
    path.write_bytes(gzip.decompress(packed))
    return squad_data.read(str(path), training=name == "train", version_2=True)

  return read_file


@pytest.mark.parametrize(
  "name, golden", [("train", "train_records"), ("dev", "eval_records")]
)
def test_records_are_the_originals(tokenizer, read, tmp_path, name, golden):
  path = str(tmp_path / "a.tf_record")
  training = name == "train"
  data = squad_input.prepare(
    read(name), tokenizer, LENGTHS, records=path, training=training
  )
  golden = np.load(GOLDEN / f"{golden}.npz")
  records = list(data_files.read_records(path))
  assert data.num_records == len(records) == len(golden["input_ids"])
  assert (data.windows is None) == training
  assert set(records[0]) == set(golden)
  for feature in golden:
    ours = np.array([record[feature] for record in records])
    np.testing.assert_array_equal(ours, golden[feature], feature)
  features = squad_input.record_features(64, training=training)
  assert set(features) <= set(golden)


def test_odd_answers_stand_where_the_original_puts_them(tmp_path):
  vocabulary = tmp_path / "vocab.txt"
  packed = GOLDEN.parents[1] / "tokenization" / "uncased_vocab.txt.gz"
  vocabulary.write_bytes(gzip.decompress(packed.read_bytes()))
  windows = GOLDEN.parent / "windows"
  path = str(tmp_path / "a.tf_record")
  squad_input.prepare(
    squad_data.read(str(windows / "odd.json"), training=True),
    tokenization.FullTokenizer(str(vocabulary)),
    squad_windows.Lengths(100, 40, 20),
    records=path,
    training=True,
  )
  golden = np.load(windows / "odd_train.npz")
  for row, record in enumerate(data_files.read_records(path)):
    for feature in golden:
      np.testing.assert_array_equal(record[feature], golden[feature][row])
  assert row + 1 == len(golden["input_ids"])


def test_records_are_kept_while_nothing_changes(tokenizer, read, tmp_path):
  path = tmp_path / "a.tf_record"

  def prepare(file, lengths=LENGTHS):
    squad_input.prepare(file, tokenizer, lengths, records=str(path))
    return path.stat().st_mtime_ns

  file = read("dev")
  first = prepare(file)
  assert prepare(file) == first
  second = prepare(file, LENGTHS._replace(doc_stride=10))
  assert second != first
  (tmp_path / "dev.json").write_text(
    (tmp_path / "dev.json").read_text().replace("When", "Where", 1)
  )
  changed = squad_data.read(file.path, version_2=True)
  assert prepare(changed, LENGTHS._replace(doc_stride=10)) != second


def test_what_holds_no_word_is_refused(tokenizer, tmp_path):
  path = tmp_path / "a.json"
  path.write_text("{}")
  questions = squad_data.from_texts([("Who?", " ")])
  file = squad_data.SquadFile(str(path), questions, False, [])
  with pytest.raises(errors.InputError, match="no context has a word"):
    squad_input.prepare(
      file, tokenizer, LENGTHS, records=str(tmp_path / "a.tf_record")
    )
