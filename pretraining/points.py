"""The extension points of pre-training: each folder below, and its flag.

The __init__.py of a folder says what its files define. No TensorFlow.
"""

from common import extension_points


def _point(flag: str, folder: str, *needs: str) -> extension_points.Point:
  package = f"{__name__.rpartition('.')[0]}.{folder}"
  return extension_points.Point(flag, package, needs)


OBJECTIVES = _point("objectives", "objectives", "make")
NETWORKS = _point(
  "network", "networks", "IGNORED", "MASKS", "labels", "check", "fixed", "make"
)
MASKINGS = _point("masking", "maskings", "groups")
PACKINGS = _point("packing", "packings", "HAS_LABEL", "FILLS", "one_pass")
SPLITTERS = _point("sentence_splitter", "splitters", "split")
