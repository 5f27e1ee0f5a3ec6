"""A classifier's examples become records, and records become batches."""

import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

import tiny_model
from classification import inputs, model, sequences
from classification.data import Example
from classification.sequences import InputOptions
from common import errors, run_settings
from message_facts import says
from records import pipeline, tfrecord
from training import evaluation_loop

WORDS = "a b c d e f g h i j k l m n o p q r s t u v w x y z".split()
CLS, SEP, A = 2, 3, 5
LETTERS = " ".join(WORDS)


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
  folder = tmp_path_factory.mktemp("vocabulary")
  return tiny_model.write_vocabulary(folder, WORDS)


def ids(text):
  return [A + WORDS.index(letter) for letter in text.replace(" ", "")]


def options(vocab_file, **changes):
  values = {"task_kind": "single", "labels": ("no", "yes"), "max_seq_length": 8}
  return InputOptions(vocab_file=vocab_file, **{**values, **changes})


def tokens_of(arrays, row):
  return arrays["input_ids"][row][arrays["input_mask"][row] > 0].tolist()


def batch_of(data):
  """Returns all records of ClassifierData as one batch."""
  serialized = list(tfrecord.read_serialized(data.records))
  batch = tf.io.parse_example(serialized, data.features)
  return {
    name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
    for name, value in batch.items()
  }


def rows_of(examples, input_options):
  """Returns the token ids of each row, and the number of rows per example."""
  arrays, counts, _ = sequences.encode(examples, input_options)
  rows = [tokens_of(arrays, row) for row in range(sum(counts))]
  return rows, counts.tolist()


def test_sequences_of_one_text_and_of_two(vocab_file):
  examples = [
    Example("1", "a b"),
    Example("2", "a", "b c"),
    Example("3", LETTERS),
    Example("4", "a b", "c d e f g"),
    # As in the original: a second text without tokens counts as missing.
    Example("5", "a", " "),
  ]
  arrays, counts, _ = sequences.encode(examples, options(vocab_file))
  assert counts.tolist() == [1] * 5
  rows = [tokens_of(arrays, row) for row in range(5)]
  assert rows == [
    [CLS, *ids("ab"), SEP],
    [CLS, *ids("a"), SEP, *ids("bc"), SEP],
    [CLS, *ids("abcdef"), SEP],
    [CLS, *ids("ab"), SEP, *ids("cde"), SEP],
    [CLS, *ids("a"), SEP],
  ]
  assert arrays["segment_ids"].tolist() == [
    [0] * 8,
    [0, 0, 0, 1, 1, 1, 0, 0],
    [0] * 8,
    [0, 0, 0, 0, 1, 1, 1, 1],
    [0] * 8,
  ]


def test_windows_cover_a_text_and_overlap_by_the_stride(vocab_file):
  """Of two texts, the longer one is cut into windows."""
  rows, counts = rows_of(
    [
      Example("1", "a b c d e f g h i j"),
      Example("2", "a b c d e f"),
      Example("3", "x", "a b c d e f"),
      Example("4", "a b c d e", "x y z w"),
    ],
    options(vocab_file, doc_stride=3),
  )
  assert rows == [
    [CLS, *ids("abcdef"), SEP],
    [CLS, *ids("defghi"), SEP],
    [CLS, *ids("ghij"), SEP],
    [CLS, *ids("abcdef"), SEP],
    [CLS, *ids("x"), SEP, *ids("abcd"), SEP],
    [CLS, *ids("x"), SEP, *ids("def"), SEP],
    # The shorter text gets at most half of the room.
    [CLS, *ids("abc"), SEP, *ids("xy"), SEP],
    [CLS, *ids("de"), SEP, *ids("xy"), SEP],
  ]
  assert counts == [3, 1, 2, 2]
  input_options = options(vocab_file, doc_stride=2, max_windows=2)
  assert rows_of([Example("1", LETTERS)], input_options)[1] == [2]


def test_a_file_with_texts_that_were_cut_is_named(vocab_file, tmp_path, caplog):
  splits = {
    "train": [Example("1", "a b c d e f g"), Example("2", "a b c d e f")],
    "eval": [Example("1", "a b c d e f")],
  }
  splits = {
    name: [each._replace(label="no") for each in examples]
    for name, examples in splits.items()
  }
  inputs.prepare_all(str(tmp_path), splits, options(vocab_file))
  (message,) = [text for text in caplog.messages if "were cut" in text]
  assert "1 of 2 texts are longer than 8 tokens" in message
  assert message.startswith(f"{tmp_path}/train")


@pytest.mark.parametrize(
  "changes, texts, cut",
  [
    # Six pieces of one text fit, and five of two.
    ({}, [("abcdef",), ("abcdefg",)], [False, True]),
    ({}, [("ab", "cde"), ("abc", "def")], [False, True]),
    ({"doc_stride": 3}, [("abcdefghij",)], [False]),
    # The shorter of two texts gets two pieces.
    ({"doc_stride": 3}, [("abcdefgh", "xy"), ("abcdefgh", "xyz")], [0, 1]),
    # Two windows with the stride 3 reach nine pieces.
    (
      {"doc_stride": 3, "max_windows": 2},
      [("abcdefghi",), ("abcdefghij",)],
      [False, True],
    ),
    ({"task_kind": "similarity"}, [("abcdef", "abcdef")], [False]),
    (
      {"task_kind": "similarity"},
      [("abcdefg", "a"), ("a", "abcdefg"), ("a", "a")],
      [True, True, False],
    ),
  ],
)
def test_an_example_is_cut_if_its_rows_lack_a_part(
  vocab_file, changes, texts, cut
):
  examples = [
    Example("", *(" ".join(text) for text in example)) for example in texts
  ]
  encoded = sequences.encode(examples, options(vocab_file, **changes))
  assert encoded.is_cut.tolist() == cut


def test_each_ending_is_a_sequence(vocab_file):
  choice = options(vocab_file, task_kind="choice", labels=("0", "1", "2"))
  examples = [
    Example("1", "a b", label="2", endings=("c", "d e", "f")),
    Example("2", "g", label="0", endings=("h", "i", "j")),
  ]
  rows, counts = rows_of(examples, choice)
  assert counts == [3, 3]
  assert rows[1] == [CLS, *ids("ab"), SEP, *ids("de"), SEP]
  assert rows[5] == [CLS, *ids("g"), SEP, *ids("j"), SEP]


def test_an_unknown_label_is_refused():
  wrong = [Example("1", "a", label="maybe")]
  with pytest.raises(KeyError, match="maybe"):
    inputs.label_ids(wrong, "single", ["no", "yes"])


def test_records_have_the_features_of_the_original(vocab_file, tmp_path):
  path = str(tmp_path / "train.tf_record")
  examples = [Example("1", "a", "b", "yes"), Example("2", "c", None, "no")]
  data = inputs.prepare(path, examples, options(vocab_file))
  records = list(tfrecord.read_records(path))
  assert {name: len(values) for name, values in records[0].items()} == {
    "input_ids": 8,
    "input_mask": 8,
    "segment_ids": 8,
    "label_ids": 1,
    "is_real_example": 1,
  }
  assert [record["label_ids"].tolist() for record in records] == [[1], [0]]
  batch = batch_of(data)
  assert batch["input_ids"].shape == [2, 1, 8]
  assert batch["label_ids"].numpy().tolist() == [1, 0]
  input_options = options(vocab_file, task_kind="regression", labels=())
  data = inputs.prepare(path, [Example("1", "a", None, 3.25)], input_options)
  assert batch_of(data)["label_ids"].numpy().tolist() == [3.25]


def test_a_batch_has_the_windows_of_its_longest_text(
  vocab_file, tmp_path, monkeypatch
):
  monkeypatch.setattr(pipeline.input_sequences, "LENGTH_MULTIPLE", 1)
  path = str(tmp_path / "train.tf_record")
  examples = [
    Example("1", LETTERS, None, ("yes",)),
    Example("2", "a", None, ()),
  ]
  input_options = options(vocab_file, task_kind="multi_label", doc_stride=6)
  data = inputs.prepare(path, examples, input_options)
  assert data.max_sequences == 5
  batch = batch_of(data)
  mask = batch["input_mask"].numpy()
  assert mask.shape == (2, 5, 8) and mask[1, 1:].sum() == 0
  assert batch["label_ids"].numpy().tolist() == [[0, 1], [0, 0]]
  short = {
    name: value[1:, :1] if value.shape.rank == 3 else value[1:]
    for name, value in batch.items()
  }
  assert inputs.filled_up(short, 5)["input_ids"].shape == [1, 5, 8]
  trimmed = pipeline.trim_to_longest(short)
  assert trimmed["segment_ids"].shape == [1, 1, 3]
  assert trimmed["label_ids"].numpy().tolist() == [[0, 0]]


def test_records_are_rewritten_if_content_or_options_differ(
  vocab_file, tmp_path
):
  path = tmp_path / "train.tf_record"
  examples = [Example("1", "a", None, "yes", place="here.tsv:1")]
  write_times = []

  def rewrites(examples, **changes):
    before = path.stat().st_mtime_ns if path.exists() else None
    input_options = options(vocab_file, **changes)
    inputs.prepare(str(path), examples, input_options)
    write_times.append(path.stat().st_mtime_ns)
    return write_times[-1] != before

  assert rewrites(examples)
  moved = [examples[0]._replace(place="there.tsv:1")]
  assert not rewrites(moved)
  assert rewrites([examples[0]._replace(text_a="b")])
  assert rewrites([examples[0]._replace(label="no")])
  assert rewrites(examples, max_seq_length=10)
  assert rewrites(examples, do_lower_case=False)
  folder = pathlib.Path(vocab_file).parent
  tiny_model.write_vocabulary(folder, [*WORDS, "new"])
  assert rewrites(examples, do_lower_case=False)


def test_records_are_written_while_examples_are_read(vocab_file, monkeypatch):
  """At most two blocks of examples wait in memory."""
  monkeypatch.setattr(inputs, "BLOCK_EXAMPLES", 10)
  examples_read, written = [], []

  def examples():
    for number in range(1000):
      examples_read.append(number)
      yield Example(f"x{number}", "a b", None, "no")

  def write_all(records):
    written.extend(records)
    assert len(examples_read) - len(written) <= 20

  facts = inputs.write_records(
    types.SimpleNamespace(write_all=write_all),
    examples(),
    options(vocab_file),
    processes=1,
  )
  assert len(written) == facts["num_records"] == 1000
  assert (facts["min_sequences"], facts["max_sequences"]) == (1, 1)


@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_blocks_are_written_in_order(vocab_file, tmp_path, monkeypatch, number):
  monkeypatch.setattr(inputs, "BLOCK_EXAMPLES", 4)
  examples = [Example(letter, letter, None, "no") for letter in WORDS]
  path = str(tmp_path / "a.tf_record")
  with tfrecord.RecordWriter(path) as writer:
    inputs.write_records(
      writer, examples, options(vocab_file), processes=number
    )
  first_ids = [record["input_ids"][1] for record in tfrecord.read_records(path)]
  assert first_ids == list(range(A, A + 26))


def test_the_statistics_of_all_blocks_are_joined(
  vocab_file, tmp_path, monkeypatch
):
  monkeypatch.setattr(inputs, "BLOCK_EXAMPLES", 2)
  examples = [
    Example(f"x{n}", "\x07", None, "no", place=f"d:{n}" if n != 3 else "")
    for n in range(7)
  ]
  examples += [Example("long", LETTERS), Example("short", "a ?")]
  with tfrecord.RecordWriter(str(tmp_path / "a")) as writer:
    facts = inputs.write_records(
      writer, examples, options(vocab_file), processes=1
    )
  assert facts == {
    "num_records": 9,
    "tokens": 8,
    "unknown": 1,
    "num_cut": 1,
    "num_empty": 7,
    "min_sequences": 1,
    "max_sequences": 1,
    # The first five; one has no place.
    "empty": ["d:0", "d:1", "d:2", "x3", "d:4"],
  }
  with tfrecord.RecordWriter(str(tmp_path / "b")) as writer:
    facts = inputs.write_records(
      writer,
      examples[6:],
      options(vocab_file, doc_stride=6, max_windows=2),
      processes=1,
    )
  assert (facts["min_sequences"], facts["max_sequences"]) == (1, 2)
  assert facts["num_cut"] == 1 and facts["empty"] == ["d:6"]


@pytest.mark.parametrize(
  "changes, message",
  [
    ({"doc_stride": 7}, says("--doc_stride=7", "leave")),
    ({"doc_stride": 2, "task_kind": "choice"}, "tasks of the kind choice"),
  ],
)
def test_invalid_options_are_refused(vocab_file, changes, message):
  with pytest.raises(errors.InputError, match=message):
    options(vocab_file, **changes)


@pytest.mark.parametrize(
  "vocabulary, length",
  [("vocab.txt", 3), ("tests/golden/roberta/bpe/tokenizer.json", 4)],
)
def test_two_texts_need_room_for_a_piece(vocab_file, vocabulary, length):
  settings = run_settings.Settings(
    {
      "vocab_file": vocab_file if vocabulary == "vocab.txt" else vocabulary,
      "do_lower_case": True,
      "max_seq_length": length,
      "doc_stride": 1,
      "max_windows": 0,
    }
  )
  for short in (settings, settings.replace(max_seq_length=2)):
    with pytest.raises(
      errors.InputError, match=f"room .* {length + 1} or more"
    ):
      sequences.options_of(short, "single", ("a",))
  longer = settings.replace(max_seq_length=length + 1)
  enough = sequences.options_of(longer, "single", ("a",))
  assert sequences.encode([Example("1", "the house", "it")], enough)[1] > 0


@pytest.mark.parametrize("size, processes", [(10_000, 1), (10, 7)])
def test_large_data_are_read_by_several_processes(
  size, processes, vocab_file, tmp_path, monkeypatch
):
  monkeypatch.setattr(inputs, "_BYTES_WORTH_PROCESSES", size)
  monkeypatch.setattr(inputs.process_pool, "default_processes", lambda: 7)
  used, write_records = [], inputs.write_records

  def write(*arguments, processes):
    used.append(processes)
    return write_records(*arguments, processes=1)

  monkeypatch.setattr(inputs, "write_records", write)
  examples = [Example("1", "a b c", None, "yes")]
  inputs.prepare(str(tmp_path / "a"), examples, options(vocab_file))
  assert used == [processes]


def test_an_empty_list_of_examples_is_refused(vocab_file, tmp_path):
  with pytest.raises(errors.InputError, match="no examples"):
    inputs.prepare(str(tmp_path / "a"), [], options(vocab_file))


def test_the_first_examples_are_shown_with_their_tokens(vocab_file, caplog):
  caplog.set_level("DEBUG", logger="absl")
  inputs.log_examples([Example("x1", "a b", "c", "yes")], options(vocab_file))
  assert caplog.records[0].getMessage().split("\n")[1:] == [
    "  guid: x1",
    "  label: yes",
    "  sequences: 1",
    "  tokens: [CLS] a b [SEP] c [SEP]",
    "  input_ids: 2 5 6 3 7 3",
  ]


def test_unknown_pieces_and_empty_texts_are_logged(
  vocab_file, tmp_path, caplog
):
  caplog.set_level("INFO", logger="absl")
  examples = [
    Example("1", "a b c ?", None, "yes", place="d.csv:2"),
    Example("2", "\x07", None, "no", place="d.csv:3"),
  ]
  path = str(tmp_path / "train.tf_record")
  for _ in range(2):  # Written, then reused.
    caplog.clear()
    inputs.prepare(path, examples, options(vocab_file))
    assert "25.00 % of the tokens are [UNK]" in caplog.text
    warnings = [r.getMessage() for r in caplog.records if r.levelno > 20]
    assert "check that --vocab_file" in warnings[0]
    assert "characters): 1; the model sees" in warnings[1]
    assert warnings[1].endswith("the first such texts: d.csv:3")


@pytest.fixture
def windows(vocab_file, tmp_path):
  """Records of 9 texts with one to four windows."""
  examples = [
    Example(str(n), " ".join(WORDS[: 2 * n]), None, ("no", "yes")[n % 2])
    for n in range(1, 10)
  ]
  path = str(tmp_path / "train.tf_record")
  return inputs.prepare(path, examples, options(vocab_file, doc_stride=4))


def frozen(seed=5):
  return model.ClassifierModel(
    tiny_model.tiny(), "single", 2, is_frozen=True, seed=seed
  )


def store_states(network, data):
  return inputs.store_states(
    network, data, strategy=tf.distribute.get_strategy(), batch_size=4
  )


def logits(network, data, seed=None):
  predictor = evaluation_loop.Predictor(
    tf.distribute.get_strategy(),
    lambda batch: {
      "logits": network(batch, seed),
      "label_ids": batch["label_ids"],
    },
  )
  return predictor.predict(
    pipeline.sequential_records([data.records]),
    data.features,
    num_records=data.num_records,
    batch_size=9,
  )


def test_stored_states_give_the_logits_of_their_texts(windows, monkeypatch):
  """The records are read once, although states are computed in parts."""
  reads, original = [], pipeline.sequential_records

  def counted(files):
    def note(record):
      reads.append(record)
      return record

    return original(files).map(
      lambda record: tf.ensure_shape(
        tf.numpy_function(note, [record], tf.string), []
      )
    )

  monkeypatch.setattr(inputs, "STATES_TOGETHER", 5)
  network = frozen()
  with monkeypatch.context() as patched:
    patched.setattr(pipeline, "sequential_records", counted)
    stored = store_states(network, windows)
  assert len(reads) == 9 and windows.max_sequences == 4
  for seed in (None, tf.constant([1, 2], tf.int32)):
    texts = logits(network, windows, seed)
    states = logits(network, stored, seed)
    assert texts["label_ids"].tolist() == states["label_ids"].tolist()
    np.testing.assert_allclose(
      states["logits"], texts["logits"], rtol=0, atol=1e-5
    )


def test_stored_states_are_reused_for_the_same_encoder_only(windows, tmp_path):
  path = tmp_path / "train.features.tf_record"
  network = frozen()
  store_states(network, windows)
  written = path.stat().st_mtime_ns
  # A change in the head does not matter.
  network.head.variables[0].assign_add(tf.ones([2, 16]))
  store_states(network, windows)
  assert path.stat().st_mtime_ns == written
  store_states(frozen(seed=6), windows)
  assert path.stat().st_mtime_ns > written
  assert tfrecord.count_records(str(path)) == 9
