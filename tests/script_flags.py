"""Defines a script's flags in this process, for one script after another."""

import contextlib
import runpy
import types

import pytest
from absl import flags

import test_layout
import tiny_model
from common import command
from common import flags as common_flags
from script_runner import command_line

FLAGS = flags.FLAGS.__dict__


class _Defined(Exception):
  """Stops the script once all its flags are defined."""


def _stop(name, **options):
  raise _Defined


@contextlib.contextmanager
def _without_flags():
  """Lets absl's FLAGS hold no script's flags for a while."""
  previous_flags = dict(FLAGS)
  FLAGS.clear()
  FLAGS.update(vars(flags.FlagValues()))
  try:
    yield
  finally:
    FLAGS.clear()
    FLAGS.update(previous_flags)


@contextlib.contextmanager
def defined(verb):
  """Lets absl's FLAGS hold only a script's flags; yields their names."""
  with _without_flags():
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(_Defined):
      patch.setattr(command, "parse_flags", _stop)
      runpy.run_path(str(test_layout.VERBS[verb]))
    # absl's own flags have no `rules`.
    yield {name for name in flags.FLAGS if hasattr(flags.FLAGS[name], "rules")}


def functions(verb):
  """Returns a script's functions, as attributes; its `main` is not run."""
  with _without_flags(), pytest.MonkeyPatch.context() as patch:
    patch.setattr(command, "parse_flags", lambda *_, **__: None)
    names = runpy.run_path(str(test_layout.VERBS[verb]))
  return types.SimpleNamespace(**names)


@contextlib.contextmanager
def classifier_parser(folder):
  """Yields a function that parses flags of run_classifier.py.

  The flags stay defined until that function's next call. A tiny model's
  configuration is written to `folder`.
  """
  path = folder / "bert_config.json"
  config = tiny_model.tiny(vocab_size=11, max_position_embeddings=16)
  path.write_text(config.to_json_string())
  required = {
    "bert_config_file": path,
    "vocab_file": "vocab.txt",
    "max_seq_length": 16,
    "output_dir": folder / "out",
    "train_batch_size": 4,
  }
  with contextlib.ExitStack() as stack:

    def parse_flags(**values):
      stack.close()
      stack.enter_context(defined("run_classifier"))
      arguments = command_line({**required, **values})
      flags.FLAGS(["test", *arguments])
      return common_flags.read_settings(check=False)

    yield parse_flags
