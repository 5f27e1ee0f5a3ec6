r"""Serves a model folder, or an export by export_saved_model.py, over HTTP.

  python serve.py --model_dir=sst2_output/final_model --model_name=sentiment
  python serve.py --saved_model_dir=models/sentiment --port=8501
  curl -d '{"instances": ["What a day!"]}' \
      http://127.0.0.1:8501/v1/models/sentiment:predict

The server has TensorFlow Serving's REST API for predictions. It computes
concurrent requests in one batch. SIGTERM or SIGINT (Ctrl-C) stops it after the
pending requests, within 25 seconds. The script needs aiohttp: in a clone of
this project, run pip install '.[serve]'.
"""

from common import command, flag_values, flags, run_settings
from web import batching

_DEFAULTS = batching.Limits()

flags.DEFINE_string(
  "saved_model_dir",
  None,
  "The --export_dir of export_saved_model.py (ONNX, LiteRT, or SavedModel, "
  "whose highest version is served), or the folder of one version.",
)
flags.DEFINE_string(
  "model_dir",
  None,
  "A trained model's folder, such as final_model, instead of an export.",
  not_with="saved_model_dir",
)
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
  "Name of the model in URLs; the folder's name if not given.",
)
flags.DEFINE_string(
  "host",
  "127.0.0.1",
  "Address to listen on. 0.0.0.0 lets other machines reach the server, which "
  "has no encryption and no password.",
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
  "Maximum number of texts in a batch; larger requests are split.",
  lower_bound=1,
)
flags.DEFINE_float(
  "max_batch_delay_ms",
  _DEFAULTS.max_batch_delay_ms,
  "How long a request waits for others while the model is idle.",
  lower_bound=0.0,
)
flags.DEFINE_integer(
  "max_queue",
  _DEFAULTS.max_queue,
  "Maximum number of waiting texts; further requests are refused with 503. A "
  "request with more texts than this is refused with 400.",
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

# TensorFlow is imported for weights and SavedModels, not for ONNX and LiteRT.
command.parse_flags(__name__, imports_tensorflow=False)

import os

from absl import logging

from common import errors
from exports import exported_network
from serving import text_models
from web import rest


def model_name(settings: run_settings.Settings):
  """Returns --model_name, by default the name of the model's folder."""
  folder = os.path.abspath(settings.saved_model_dir or settings.model_dir)
  # As usual with TensorFlow Serving, the folder above the version has the name.
  if os.path.basename(folder).isdecimal():
    folder = os.path.dirname(folder)
  name = settings.model_name or os.path.basename(folder)
  if not name or set(name) & set("/:"):
    raise errors.InputError(
      f"--model_name={name!r} cannot be part of a URL; use neither / nor :"
    )
  return name


def load(settings: run_settings.Settings):
  """Returns the answers.Served that the flags select."""
  size, threads = settings.max_batch_size, settings.num_threads
  if settings.saved_model_dir:
    return exported_network.load(settings.saved_model_dir, size, threads)
  return text_models.load(
    settings.model_dir, batch_size=size, num_threads=threads
  ).servable(settings.head)


def main(_) -> None:
  """Serves a model until a signal ends the process."""
  # Imported here, to report a missing aiohttp like other input errors.
  from web import server

  settings = flags.read_settings()
  if not (settings.saved_model_dir or settings.model_dir):
    raise errors.InputError("pass --model_dir or --saved_model_dir")
  name = model_name(settings)
  limits = batching.Limits(**settings.pick(batching.Limits._fields))
  model = load(settings)
  batcher = batching.Batcher(model.answer, limits)
  host, port = settings.host, settings.port
  hosts = server.allowed_hosts(settings.allowed_hosts, host)
  application = server.make_application(model, name, batcher, limits, hosts)
  logging.info("loaded %s", model.folder)
  if port:  # With --port=0, the port is unknown until the server prints it.
    example = rest.example_request(model.texts, host, port, name)
    logging.info("example request: %s", example)
  server.run(application, host, port, name, limits.timeout_s)
  counts = batcher.num_instances, batcher.num_batches
  logging.info("stopped; texts: %d, batches: %d", *counts)


if __name__ == "__main__":
  command.run(main)
