"""Finds the machines of a run in the environment that a scheduler sets.

TensorFlow reads TF_CONFIG, which Kubernetes' TFJob and Vertex AI set. Each file
of this folder makes the same value for another scheduler, and defines

  workers(environment)  returns the addresses (host:port) of all processes, and
                        the number of this process among them; None elsewhere.
                        Raises InputError: a variable has an unknown form

No TensorFlow.
"""

from collections.abc import Mapping

from common import errors, extensions

FIRST_PORT = 20000


def tf_config(environment: Mapping[str, str]) -> dict | None:
  """Returns the value of TF_CONFIG, None outside of these schedulers.

  Raises InputError: a variable has an unknown form.

  Args:
    environment: for example, os.environ.
  """
  # In the environment of several schedulers, the last name counts.
  for file in reversed(extensions.load_all(__name__)):
    found = file.workers(environment)
    if found:
      return _config(*found)
  return None


def _config(workers: list[str], index: int) -> dict:
  if index >= len(workers):
    raise errors.InputError(
      f"this process is number {index} of the workers {', '.join(workers)}; "
      "start one process per task, or set TF_CONFIG"
    )
  return {
    "cluster": {"worker": workers},
    "task": {"type": "worker", "index": index},
  }
