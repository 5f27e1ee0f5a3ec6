"""Tests how a model's labels of a file are written, scored and reported."""

import numpy as np
import pytest
import tensorflow as tf

from running import reports
from tagging import data, inputs, predictions, windowing

LABELS = ["O", "B-X", "I-X"]
SENTENCES = [
  data.Sentence(0, [1, 2, 3], ["a", "b", "c"], ["O", "B-X", "I-X"]),
  data.Sentence(0, [5], ["d"], ["O"]),
  data.Sentence(0, [7, 8], ["e", "f"], ["O", "O"]),
]
PREDICTED = [["O", "B-X", "O"], ["O"], ["B-X", "I-X"]]


def test_the_mistakes_are_the_sentences_with_wrong_labels():
  assert predictions.mistakes(SENTENCES, PREDICTED) == [
    reports.Mistake(1, "a b c", "b/B-X c/I-X", "b/B-X"),
    reports.Mistake(2, "e f", "O", "e/B-X f/I-X"),
  ]
  unlabelled = [each._replace(labels=None) for each in SENTENCES]
  assert not predictions.mistakes(unlabelled, PREDICTED)


@pytest.mark.parametrize(
  "file_format, text, name, expected",
  [
    ("conll", "a\nb\n\nc\n", "conll", "a O\nb B-X\n\nc O\n"),
    ("text", "a b\nc\n", "conll", "a O\nb B-X\n\nc O\n\n"),
    (
      "jsonl",
      '{"words": ["a", "b"]}\n{"words": ["c"]}\n',
      "jsonl",
      '{"words": ["a", "b"], "predicted": ["O", "B-X"]}\n'
      '{"words": ["c"], "predicted": ["O"]}\n',
    ),
  ],
)
def test_predictions_have_the_format_of_their_file(
  tmp_path, file_format, text, name, expected, caplog
):
  caplog.set_level("INFO", logger="absl")
  (tmp_path / "in").write_text(text)
  file = inputs.TaggingData(
    str(tmp_path / "in"), [], [], "", {}, False, file_format
  )
  predictions.write(str(tmp_path), file, [["O", "B-X"], ["O"]], "iob2")
  assert {path.name for path in tmp_path.iterdir()} == {
    "in",
    f"test_predictions.{name}",
  }
  assert (tmp_path / f"test_predictions.{name}").read_text() == expected
  assert caplog.messages == [
    f"predictions are in {tmp_path}/test_predictions.{name}"
  ]


@pytest.mark.parametrize("trim", [True, False])
def test_the_loss_is_the_mean_over_words(tmp_path, trim):
  """Windows of one and of several words; a word has one window's label."""
  windows = [
    windowing.Window([2, 10, 11, 12, 3], 0, 0, [1, 2]),
    windowing.Window([2, 12, 3], 0, 2, [1]),
    windowing.Window([2, 13, 3], 1, 0, [1]),
    windowing.Window([2, 14, 15, 3], 2, 0, [1, 2]),
  ]
  file = inputs.prepare(
    "f.conll",
    SENTENCES,
    windows,
    labels=LABELS,
    records=str(tmp_path / "a.tf_record"),
    max_seq_length=6,
    file_format="conll",
  )
  logits = np.random.RandomState(1).randn(20, 3).astype(np.float32)
  widths = set()

  def model(batch):
    widths.add(batch["input_ids"].shape[1])
    return tf.gather(logits, batch["input_ids"])

  predicted, loss = predictions.FilePredictor(
    model, LABELS, strategy=tf.distribute.get_strategy(), trim=trim
  ).predict(file, 2)
  ids = [[10, 11, 12], [13], [14, 15]]
  assert predicted == [
    [LABELS[logits[number].argmax()] for number in row] for row in ids
  ]
  log_probs = tf.nn.log_softmax(logits).numpy()
  gold = [0, 1, 2, 0, 0, 0]
  expected = -log_probs[range(10, 16), gold].mean()
  assert loss == pytest.approx(expected, abs=1e-5)
  assert widths == ({None} if trim else {6})
