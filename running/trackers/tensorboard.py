"""TensorBoard's summaries."""

import tensorflow as tf

FILE = "events.out.tfevents"


class Tracker:
  """Writes scalars as a run trains."""

  def __init__(self, folder: str, first_step: int):
    del first_step  # The summaries of repeated steps stay.
    self._writer = tf.summary.create_file_writer(folder)

  def write(self, step: int, values: dict[str, float]) -> None:
    """Writes a step's values at once."""
    _write(self._writer, step, values)
    self._writer.flush()

  def close(self) -> None:
    """Closes the file."""
    self._writer.close()


def _write(writer: tf.summary.SummaryWriter, step: int, values: dict) -> None:
  with writer.as_default(step=step):
    for name, value in values.items():
      tf.summary.scalar(name, float(value))


def write_evaluation(folder: str, step: int, values: dict[str, float]) -> None:
  """Writes the scores of a final evaluation to their own file."""
  writer = tf.summary.create_file_writer(folder, filename_suffix=".evaluation")
  _write(writer, step, values)
  writer.close()
