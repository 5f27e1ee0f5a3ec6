"""Keeps the messages that native code writes while a package is imported.

TensorFlow 2.21 writes to file descriptor 2 before it reads
TF_CPP_MIN_LOG_LEVEL, for example that the machine has no GPU. `held_back`
keeps such messages for log.txt, and by default sets this variable to 3: native
code then shows only fatal errors, and other errors raise exceptions. The value
0, which --verbose sets, shows all messages at once; this also helps if the
process ends during the import.
"""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

# The messages of this process, oldest first; console.start logs them.
messages: list[str] = []
# "I0000 00:00:1795902537.603665   10254 port.cc:153] text", or the line that
# announces such lines.
_NATIVE = re.compile(
  r"[IWEF]\d{4} \d\d:\d\d:\d+\.\d+ +\d+ [\w.]+:\d+\] "
  r"|WARNING: All log messages before absl::InitializeLog\(\)"
)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
  """Keeps the native messages of a block; other lines are shown at its end.

  If the block raises, native warnings and errors are shown, too.
  """
  if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
    yield
    return
  with tempfile.TemporaryFile() as stream:
    try:
      shown = os.dup(2)
      _flush()
      os.dup2(stream.fileno(), 2)
    except OSError:  # The descriptor is closed.
      yield
      return
    has_failed = True
    try:
      yield
      has_failed = False
    finally:
      _flush()
      os.dup2(shown, 2)
      os.close(shown)
      stream.seek(0)
      _keep(stream.read().decode("utf-8", "replace"), has_failed)


def _flush() -> None:
  if sys.stderr is not None:
    sys.stderr.flush()


def _keep(text: str, has_failed) -> None:
  """Keeps native messages, and writes the other lines to standard error."""
  for line in text.splitlines(keepends=True):
    is_native = _NATIVE.match(line)
    if is_native:
      messages.append(line.rstrip("\n"))
    if not is_native or (has_failed and re.match(r"[WEF]\d", line)):
      os.write(2, line.encode("utf-8", "replace"))
