"""beam_shards: what it asks for, and (slow) the bytes of one machine."""

import builtins

import pytest

from common import errors
from pretraining import beam_shards
from sharded_runs import assert_expected, contents, make_run


def test_without_beam_it_says_what_to_install(tmp_path, monkeypatch):
  def import_without_beam(name, *arguments):
    if name.startswith("apache_beam"):
      raise ImportError(name)
    return real_import(name, *arguments)

  real_import = builtins.__import__
  monkeypatch.setattr(builtins, "__import__", import_without_beam)
  with pytest.raises(errors.InputError, match="pip install apache-beam"):
    beam_shards.make(make_run(tmp_path), "DirectRunner", [])


@pytest.mark.slow
def test_beam_makes_the_bytes_of_one_machine(tmp_path):
  pytest.importorskip("apache_beam")
  (tmp_path / "local").mkdir()
  local = make_run(tmp_path / "local")
  local.make()
  expected = contents(local)
  del expected["a.tfrecord.manifest.json"]
  run = make_run(tmp_path)
  beam_shards.make(run, "DirectRunner", [])
  assert_expected(run, expected)
