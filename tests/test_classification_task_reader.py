"""The settings of run_classifier.py -> what is to be learned."""

import pytest

from classification import task_reader
from common import errors


@pytest.mark.parametrize(
  "text, message", [(None, "no such file"), ("x = 1", "adds no task: it must")]
)
def test_a_python_file_that_adds_no_task(tmp_path, text, message):
  path = tmp_path / "mood.py"
  if text:
    path.write_text(text)
  with pytest.raises(errors.InputError, match=message):
    task_reader.load_task_module(str(path))
