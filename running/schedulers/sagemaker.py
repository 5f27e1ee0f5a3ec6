"""The hosts of a training job on SageMaker. No TensorFlow."""

import json
from collections.abc import Mapping

from common import errors
from running import schedulers


def workers(environment: Mapping[str, str]) -> tuple[list[str], int] | None:
  """Returns the addresses of the hosts and this host's number, or None.

  Raises InputError: a variable has an unknown form.
  """
  if "SM_HOSTS" not in environment:
    return None
  listed, own = environment["SM_HOSTS"], environment.get("SM_CURRENT_HOST")
  try:
    hosts = json.loads(listed)
    index = hosts.index(own)
  except (ValueError, AttributeError) as error:
    raise errors.InputError(
      f"SageMaker's variables are not understood: SM_HOSTS={listed}, "
      f"SM_CURRENT_HOST={own}; set TF_CONFIG"
    ) from error
  return [f"{host}:{schedulers.FIRST_PORT}" for host in hosts], index
