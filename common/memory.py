"""The memory that this process may use."""

import os
import re

_CONTAINER_LIMIT = "/sys/fs/cgroup/memory.max"
_CONTAINER_USE = "/sys/fs/cgroup/memory.current"
_CONTAINER_STATISTICS = "/sys/fs/cgroup/memory.stat"
_SYSTEM = "/proc/meminfo"


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
  container = _number_in(_CONTAINER_LIMIT)
  return total if container is None else min(total, container)


def available_bytes() -> int | None:
  """Returns the free bytes of memory; None if unknown, as on macOS.

  This is the lower one of the machine's and the container's. Memory that only
  caches files counts as free.
  """
  free = _number_in(_SYSTEM, r"^MemAvailable:\s*(\d+) kB")
  if free is None:
    return None
  free *= 1024
  limit, used = _number_in(_CONTAINER_LIMIT), _number_in(_CONTAINER_USE)
  if limit is None or used is None:
    return free
  cached = _number_in(_CONTAINER_STATISTICS, r"^inactive_file (\d+)$") or 0
  return min(free, max(0, limit - used + cached))


def _number_in(path: str, pattern: str = r"^(\d+)$") -> int | None:
  """Returns the number that a pattern finds in a file; None without one."""
  try:
    with open(path, encoding="ascii") as stream:
      found = re.search(pattern, stream.read(), re.MULTILINE)
  except OSError:
    return None
  # In a container's file, "max" means no limit.
  return int(found[1]) if found else None
