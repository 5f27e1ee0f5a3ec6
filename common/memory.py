"""The memory that this process may use."""

import os

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"


def total_bytes() -> int | None:
  """Returns the bytes of memory that this process may use; None if unknown.

  This is the lowest of the machine's memory, the container's limit and the
  process's limit (ulimit -v).
  """
  try:
    import resource  # Some systems lack this module or these values.

    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
  except (ImportError, AttributeError, OSError, ValueError):
    return None
  if limit != resource.RLIM_INFINITY:
    total = min(total, limit)
  try:
    with open(_CONTAINER_LIMIT, encoding="ascii") as stream:
      container = stream.read().strip()
  except OSError:
    return total
  # "max" means no limit.
  return min(total, int(container)) if container.isdecimal() else total
