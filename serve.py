r"""Serves model folders, and exports by export_saved_model.py, over HTTP.

  python serve.py --model_dir=sst2_output/final_model --model_name=sentiment
  python serve.py --saved_model_dir=models/sentiment --port=8501
  curl -d '{"instances": ["What a day!"]}' \
      http://127.0.0.1:8501/v1/models/sentiment:predict

The server has TensorFlow Serving's REST API for predictions. It computes
concurrent requests in one batch. SIGTERM or SIGINT (Ctrl-C) stops it after the
pending requests, within 25 seconds. The script needs aiohttp: in a clone of
this project, run pip install '.[serve]'.
"""

from checkpoints import model_options
from common import command, flag_values, flags, run_settings
from web import forms, work_queue

_DEFAULTS = work_queue.Limits()

flags.DEFINE_string(
  "saved_model_dir",
  None,
  "The --export_dir of export_saved_model.py (ONNX, LiteRT, or SavedModel, "
  "whose highest version is served), or the folder of one version. Commas "
  "separate several.",
)
flags.DEFINE_string(
  "model_dir",
  None,
  "A trained model's folder, such as final_model, instead of an export. Commas "
  "separate several; --saved_model_dir may name further models.",
)
flags.define_options([model_options.DOWNLOAD])
flags.rule("download", needs="model_dir")
flags.DEFINE_enum(
  "head",
  None,
  flag_values.SERVING_HEADS,
  "Task of the model; by default the task that it was trained for, or "
  "embedding for an encoder without a head.",
  needs="model_dir",
)
flags.DEFINE_string(
  "model_name",
  None,
  "Name of the model in URLs. By default the folder's name, or the name of the "
  "folder above final_model, best_model or a version. Commas separate the "
  "names of several models, those of --saved_model_dir first.",
)
flags.DEFINE_string(
  "host",
  "127.0.0.1",
  "Address to listen on. 0.0.0.0 lets other machines reach the server, which "
  "has no encryption; see also --api_key_file.",
)
flags.DEFINE_list(
  "allowed_hosts",
  [],
  "Host names, without the port, that a request's Host header may have. The "
  "server refuses other names with 403, which stops web pages that point their "
  "own host name at it (DNS rebinding). By default localhost and loopback "
  "addresses if --host is one of them, else all. *: all.",
)
flags.DEFINE_integer(
  "port",
  8501,
  "Port to listen on; 0: any free port.",
  lower_bound=0,
  upper_bound=65535,
)
flags.DEFINE_integer(
  "max_batch_size",
  _DEFAULTS.max_batch_size,
  "Maximum number of sequences (texts, or windows of long texts) in a batch.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_batch_tokens",
  _DEFAULTS.max_batch_tokens,
  "Maximum number of word pieces in a batch, with padding. A text with many "
  "windows is computed in several batches, and shares them with other texts.",
  lower_bound=1,
)
flags.DEFINE_float(
  "max_batch_delay_ms",
  _DEFAULTS.max_batch_delay_ms,
  "How long a request waits until other requests in progress join its batch.",
  lower_bound=0.0,
)
flags.DEFINE_integer(
  "max_queue",
  _DEFAULTS.max_queue,
  "Maximum number of texts without an answer; further requests are refused "
  "with 503. A request with more texts than this is refused with 400.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_body_bytes",
  _DEFAULTS.max_body_bytes,
  "Maximum size of a request; larger requests are refused with 413.",
  lower_bound=1,
)
flags.DEFINE_float(
  "timeout_s",
  _DEFAULTS.timeout_s,
  "Seconds after which an unanswered request gets status 504, and an idle "
  "connection is closed.",
  lower_bound=0.001,
)
flags.DEFINE_integer(
  "num_threads",
  0,
  "Number of threads that compute; 0: one per CPU core.",
  lower_bound=0,
)
for options in forms.options().values():
  for option, meaning in options.items():
    flags.DEFINE_string(option, None, meaning)

# TensorFlow is imported for weights and SavedModels, not for ONNX and LiteRT.
command.parse_flags(__name__, imports_tensorflow=False)

import contextlib
import os
import re
from collections.abc import Iterator

from absl import logging

from common import errors
from exports import exported_network
from serving import text_models

# Folders that a training writes for its model, whose own folder has the name.
_OF_TRAINING = ("best_model", "final_model")


def folders(value: str | None) -> list[str]:
  """Returns the folders in the value of a flag."""
  if not value:
    return []
  return [value] if os.path.exists(value) else value.split(",")


def default_name(folder: str) -> str:
  """Returns the name of a folder's model."""
  folder = os.path.abspath(folder)
  name = os.path.basename(folder)
  # As usual with TensorFlow Serving, the folder above the version has the name.
  if name.isdecimal() or name in _OF_TRAINING:
    name = os.path.basename(os.path.dirname(folder))
  return name


def model_names(settings: run_settings.Settings) -> list[str]:
  """Returns the name of each model: --model_name, or names of the folders."""
  paths = folders(settings.saved_model_dir) + folders(settings.model_dir)
  if not paths:
    raise errors.InputError("pass --model_dir or --saved_model_dir")
  names = [default_name(path) for path in paths]
  if settings.model_name:
    names = settings.model_name.split(",")
  if len(names) != len(paths):
    raise errors.InputError(
      f"--model_name has {len(names)} names for {len(paths)} models; pass one "
      "for each folder"
    )
  for name in names:
    if not name or set(name) & set("/:"):
      raise errors.InputError(
        f"--model_name={name!r} cannot be part of a URL; use neither / nor :"
      )
    if names.count(name) > 1:
      raise errors.InputError(
        f"{names.count(name)} models are called {name!r}; pass --model_name "
        "with different names, separated by commas"
      )
  return names


def load(settings: run_settings.Settings) -> list:
  """Returns the answers.Served of each folder."""
  size, threads = settings.max_batch_size, settings.num_threads
  models = [
    exported_network.load(folder, size, threads)
    for folder in folders(settings.saved_model_dir)
  ]
  for folder in folders(settings.model_dir):
    with _flags_of_exports(settings):
      model = text_models.load(
        folder, batch_size=size, num_threads=threads, download=settings.download
      )
      models.append(model.servable(settings.head))
  return models


@contextlib.contextmanager
def _flags_of_exports(settings: run_settings.Settings) -> Iterator[None]:
  """Adds to an InputError that only exports have the flags that it advises."""
  try:
    yield
  except errors.InputError as error:
    advised = re.findall(r"\bpass --(\w+)", str(error))
    if lacking := sorted({f"--{n}" for n in advised if n not in settings}):
      raise errors.InputError(
        f"{error}; serve.py has no {' or '.join(lacking)}: pass it to "
        "export_saved_model.py, and serve the export"
      ) from error
    raise


def main(_: list[str]) -> None:
  """Serves models until a signal ends the process."""
  # Imported here, to report a missing aiohttp like other input errors.
  from web import application, server

  settings = flags.read_settings()
  names = model_names(settings)
  limits = work_queue.Limits(**settings.pick(work_queue.Limits._fields))
  with command.ending_at_once():
    models = load(settings)
  hosted = [
    application.host(name, model, limits) for name, model in zip(names, models)
  ]
  host, port = settings.host, settings.port
  hosts = application.allowed_hosts(settings.allowed_hosts, host)
  site = application.Site(hosted, limits, hosts)
  forms.add_all(site, settings)
  for each in hosted:
    logging.info("loaded %s", each.model.folder)
    if port:  # With --port=0, the port is unknown until the server prints it.
      inputs = each.model.texts
      example = server.example_request(inputs, host, port, each.name)
      logging.info("example request: %s", example)
  server.run(site, host, port, limits.timeout_s)
  texts = sum(each.queue.num_texts for each in hosted)
  batches = sum(each.network.num_batches for each in hosted)
  logging.info("stopped; texts: %d, batches: %d", texts, batches)


if __name__ == "__main__":
  command.run(main)
