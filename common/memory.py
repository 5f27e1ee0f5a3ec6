"""How much memory this machine has, and whether a model fits."""

import os

from common import errors

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


def total_bytes():
  """Returns the bytes of memory that this process may use; None if unknown.

  The memory of the machine, or the limit of the container or of the process
  (ulimit -v) if that is less.
  """
  try:
    import resource  # Not on every system, nor is what follows.

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
  except (ImportError, AttributeError, OSError, ValueError):
    return None
  if limit != resource.RLIM_INFINITY:
    total = min(total, limit)
  try:
    with open(_CONTAINER_LIMIT, encoding="ascii") as stream:
      limit = stream.read().strip()
  except OSError:
    return total
  # "max" is no limit.
  return min(total, int(limit)) if limit.isdecimal() else total


def describe(size):
  """Returns a number of bytes, an int, in words: 1536 -> "1.5 kB"."""
  size = min(size, 10**300)  # What a float can hold.
  power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
  return f"{size / 1000**power:.3g} {_UNITS[power]}"


def check_parameters(count, largest):
  """Refuses a model that this machine cannot hold, before it is made.

  A number that is a typing error would otherwise end in whatever TensorFlow
  or the system says of an impossible allocation, or in a killed process.

  Args:
    count: how many float32 numbers there are.
    largest: which number of the configuration to look at first.

  Raises:
    InputError: they need more memory than there is.
  """
  present, needed = total_bytes(), 4 * count
  # Weights alone; training needs several times as much.
  if present is not None and needed > present:
    raise errors.InputError(
      f"a model of this configuration needs {describe(needed)} of memory for "
      f"its weights, and this machine has {describe(present)}; check the "
      f"numbers in the model configuration, such as {largest}"
    )
