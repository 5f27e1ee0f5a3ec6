"""Which flags of run_classifier.py have an effect with an export."""

import types

import pytest

from common import errors, run_settings
from serving import exported_classifier

FLAGS = """model_dir output_dir do_predict predict_file verbose
predict_batch_size text_column text_b_column id_column file_format separator
encoding on_bad_row""".split()


def check(*given, **values):
  export = types.SimpleNamespace(
    settings=run_settings.Settings({"engine": "onnx", "head": "classification"})
  )
  defaults = {"model_dir": "out", "engine": "tensorflow", "do_predict": True}
  settings = run_settings.Settings({**defaults, **values}, given)
  exported_classifier._check(settings, export)


def test_flags_of_the_input_and_the_output_are_taken():
  check(*FLAGS)
  check("engine", engine="onnx")
  check()  # The default of --engine is not the user's.
  with pytest.raises(errors.InputError, match="--do_eval, --seed,"):
    check("seed", *FLAGS, "do_eval")
