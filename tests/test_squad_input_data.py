"""Records of SQuAD windows, against those of the original."""

import gzip
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tokenization
from common import errors, process_pool
from records import pipeline, tfrecord
from squad import dataset, input_data, windowing

GOLDEN = pathlib.Path(__file__).parent / "golden" / "squad" / "run"
LENGTHS = windowing.Lengths(64, 20, 16)


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
    return dataset.read(str(path), training=name == "train", version_2=True)

  return read_file


@pytest.mark.parametrize(
  "name, golden", [("train", "train_records"), ("dev", "eval_records")]
)
def test_records_are_the_originals(tokenizer, read, tmp_path, name, golden):
  path = str(tmp_path / "a.tf_record")
  training = name == "train"
  data = input_data.prepare(
    read(name), tokenizer, LENGTHS, records=path, training=training
  )
  golden = np.load(GOLDEN / f"{golden}.npz")
  records = list(tfrecord.read_records(path))
  assert data.num_records == len(records) == len(golden["input_ids"])
  assert (data.windows is None) == training
  assert set(records[0]) == set(golden)
  for feature in golden:
    ours = np.array([record[feature] for record in records])
    np.testing.assert_array_equal(ours, golden[feature], feature)
  features = input_data.record_features(64, training=training)
  assert set(features) <= set(golden)


def test_odd_answers_stand_where_the_original_puts_them(tmp_path):
  vocabulary = tmp_path / "vocab.txt"
  packed = GOLDEN.parents[1] / "tokenization" / "uncased_vocab.txt.gz"
  vocabulary.write_bytes(gzip.decompress(packed.read_bytes()))
  windows = GOLDEN.parent / "windows"
  path = str(tmp_path / "a.tf_record")
  input_data.prepare(
    dataset.read(str(windows / "odd.json"), training=True),
    tokenization.FullTokenizer(str(vocabulary)),
    windowing.Lengths(100, 40, 20),
    records=path,
    training=True,
  )
  golden = np.load(windows / "odd_train.npz")
  for row, record in enumerate(tfrecord.read_records(path)):
    for feature in golden:
      np.testing.assert_array_equal(record[feature], golden[feature][row])
  assert row + 1 == len(golden["input_ids"])


def test_records_are_kept_while_nothing_changes(tokenizer, read, tmp_path):
  path = tmp_path / "a.tf_record"

  def prepare(file, lengths=LENGTHS):
    input_data.prepare(file, tokenizer, lengths, records=str(path))
    return path.stat().st_mtime_ns

  file = read("dev")
  first = prepare(file)
  assert prepare(file) == first
  second = prepare(file, LENGTHS._replace(doc_stride=10))
  assert second != first
  (tmp_path / "dev.json").write_text(
    (tmp_path / "dev.json").read_text().replace("When", "Where", 1)
  )
  changed = dataset.read(file.path, version_2=True)
  assert prepare(changed, LENGTHS._replace(doc_stride=10)) != second


def test_batches_of_like_length_need_less_padding(tokenizer, read, tmp_path):
  """And all records are there, the answers with their windows."""
  path = str(tmp_path / "a.tf_record")
  data = input_data.prepare(
    read("train"), tokenizer, LENGTHS, records=path, training=True
  )
  features = input_data.record_features(64, training=True)
  widths, seen = [], []
  for bucketing in (None, pipeline.Bucketing(features, 8)):
    batches = pipeline.distributed_batches(
      tf.distribute.get_strategy(),
      pipeline.shuffled_records(
        [path], num_records=data.num_records, seed=1, bucketing=bucketing
      ),
      features,
      batch_size=8,
      trim=True,
    ).take(50)  # As many as are sorted together.
    columns = [
      {name: value.numpy() for name, value in batch.items()}
      for batch in batches
    ]
    widths.append(sum(batch["input_ids"].shape[1] for batch in columns))
    seen.append(
      sorted(
        (batch["unique_ids"][row], batch["start_positions"][row])
        for batch in columns
        for row in range(8)
      )
    )
  assert widths[1] < widths[0]
  assert seen[0] == seen[1] and len(seen[0]) == 400


def test_more_processes_are_started_for_many_words_alone(monkeypatch):
  monkeypatch.setattr(input_data, "_MANY_WORDS", 5)
  monkeypatch.setattr(process_pool, "default_processes", lambda: 7)
  few = [("who", "a b"), ("where", "a b"), ("when", "c d")]
  assert input_data.num_processes(dataset.from_texts(few)) == 1
  many = [*few, ("why", "e")]
  assert input_data.num_processes(dataset.from_texts(many)) == 7


def test_what_holds_no_word_is_refused(tokenizer, tmp_path):
  path = tmp_path / "a.json"
  path.write_text("{}")
  questions = dataset.from_texts([("Who?", " ")])
  file = dataset.SquadFile(str(path), questions, False, [])
  with pytest.raises(errors.InputError, match="no context has a word"):
    input_data.prepare(
      file, tokenizer, LENGTHS, records=str(tmp_path / "a.tf_record")
    )


def test_examples_are_shown_and_a_vocabulary_that_does_not_fit_is_noticed(
  tmp_path, read, caplog
):
  """The warning comes again where the records are kept."""
  caplog.set_level("DEBUG", logger="absl")
  path = tmp_path / "vocab.txt"
  path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n?\n")
  tokenizer = tokenization.FullTokenizer(str(path))
  file = read("train")
  for shown in (5, 0):
    caplog.clear()
    input_data.prepare(
      file, tokenizer, LENGTHS, records=str(tmp_path / "a"), training=True
    )
    found = [text for text in caplog.messages if "[CLS] " in text]
    assert len(found) == shown
    assert all(text.endswith("[SEP]") for text in found)
    (warning,) = [
      text for text in caplog.messages if "the model learns nothing" in text
    ]
    assert warning.startswith(f"{file.path}: ")
