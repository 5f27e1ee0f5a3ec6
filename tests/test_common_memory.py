"""The memory that a process may use, with and without a container."""

import resource

import pytest

from common import memory

SYSTEM = "MemTotal: 90 kB\nMemAvailable:   40 kB\n"
STATISTICS = "anon 9\ninactive_file 1000\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
  """A function that replaces the system's files; None: there is no file."""

  def write(system=SYSTEM, limit=None, use=None, statistics=None):
    for name, text in (
      ("_SYSTEM", system),
      ("_CONTAINER_LIMIT", limit),
      ("_CONTAINER_USE", use),
      ("_CONTAINER_STATISTICS", statistics),
    ):
      path = tmp_path / name
      path.unlink(missing_ok=True)
      if text is not None:
        path.write_text(text)
      monkeypatch.setattr(memory, name, str(path))

  return write


@pytest.mark.parametrize(
  "texts, free",
  [
    ({}, 40 * 1024),
    ({"system": None}, None),
    ({"system": "MemTotal: 90 kB\n"}, None),
    # The limit, less what is used, plus what only caches files.
    (dict(limit="30000\n", use="25000\n", statistics=STATISTICS), 6000),
    (dict(limit="30000\n", use="25000\n"), 5000),
    (dict(limit="30000\n", use="31000\n"), 0),
    (dict(limit="900000\n", use="25000\n"), 40 * 1024),
    (dict(limit="max\n", use="25000\n"), 40 * 1024),
    (dict(limit="30000\n"), 40 * 1024),
  ],
)
def test_the_free_memory_is_the_lower_one(files, texts, free):
  files(**texts)
  assert memory.available_bytes() == free


@pytest.mark.parametrize(
  "limit, container, total",
  [
    (resource.RLIM_INFINITY, None, 12_000),
    (resource.RLIM_INFINITY, "max\n", 12_000),
    (resource.RLIM_INFINITY, "9000\n", 9000),
    (resource.RLIM_INFINITY, "20000\n", 12_000),
    (8000, "9000\n", 8000),
    (8000, None, 8000),
    (20_000, None, 12_000),
  ],
)
def test_the_memory_is_the_lowest_limit(
  files, monkeypatch, limit, container, total
):
  files(limit=container)
  sizes = {"SC_PAGE_SIZE": 4000, "SC_PHYS_PAGES": 3}
  monkeypatch.setattr("os.sysconf", sizes.__getitem__)
  monkeypatch.setattr(
    resource,
    "getrlimit",
    lambda which: (limit if which == resource.RLIMIT_AS else 1, 1),
  )
  assert memory.total_bytes() == total


@pytest.mark.parametrize("fault", [OSError, ValueError])
def test_a_system_may_not_know_its_memory(files, monkeypatch, fault):
  def fail(name):
    raise fault

  files()
  monkeypatch.setattr("os.sysconf", fail)
  assert memory.total_bytes() is None
