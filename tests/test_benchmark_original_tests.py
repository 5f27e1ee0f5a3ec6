"""original_tests.py: tests of another's modules, run against ours."""

import pytest

import original_tests
from common import errors

TESTS = """
import tensorflow as tf
import tokenization

class ATest(tf.test.TestCase):
  def test_ours(self):
    assert tokenization.validate_case_matches_checkpoint
    self.assertTrue(tf.get_variable)

  def test_theirs(self):
    tokenization.nothing()
"""


def test_each_test_is_named_with_its_outcome(tmp_path):
  path = tmp_path / "tokenization_test.py"
  with pytest.raises(errors.InputError, match="no such file: .*clone"):
    original_tests.run(str(path))
  path.write_text(TESTS)
  assert original_tests.run(str(path)) == {
    "tokenization_test.ATest.test_ours": "passed",
    "tokenization_test.ATest.test_theirs":
      "AttributeError: module 'tokenization' has no attribute 'nothing'",
  }
