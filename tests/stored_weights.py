"""Reads all tensors of a checkpoint."""

from checkpoints import weight_files


def read(path):
  """Returns {name: array} of a checkpoint in any format."""
  reader = weight_files.open_reader(path)
  return {name: reader.read(name) for name in reader.shapes}
