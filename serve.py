r"""Serves a SavedModel of export_saved_model.py over HTTP.

  python serve.py --saved_model_dir=models/sentiment --port=8501
  curl -d '{"instances": ["What a day!"]}' \
      http://127.0.0.1:8501/v1/models/sentiment:predict

For those without TensorFlow Serving, whose REST form it speaks. Requests that
come at the same time are computed together. SIGTERM and SIGINT (Ctrl-C) end
it after the requests under way, within 25 seconds. Needs aiohttp: in a clone of
this project, pip install '.[serve]'.
"""

from common import command, flags

flags.DEFINE_string(
  "saved_model_dir", None,
  "--export_dir of export_saved_model.py (the highest version is taken), or "
  "the folder of one version.", required=True,
)
flags.DEFINE_string(
  "model_name", None,
  "Name of the model in URLs; the folder's name if not given.",
)
flags.DEFINE_string(
  "host", "127.0.0.1",
  "Address to listen on; 0.0.0.0: reachable from other machines. There is no "
  "encryption and no password.",
)
flags.DEFINE_integer(
  "port", 8501, "Port to listen on; 0: one that is free.", lower_bound=0,
  upper_bound=65535,
)
flags.DEFINE_bool(
  "batch_requests", True, "Whether requests are computed together."
)
flags.DEFINE_integer(
  "max_batch_size", 32,
  "Most texts in a batch; a larger request is computed in several.",
  lower_bound=1,
)
flags.DEFINE_float(
  "max_batch_delay_ms", 2.0,
  "How long a request waits for others, where none is being computed.",
  lower_bound=0.0, needs="batch_requests",
)
flags.DEFINE_integer(
  "max_queue", 512,
  "Most texts that may wait; more requests are refused with 503. A request "
  "with more texts than this is refused with 400.",
  lower_bound=1,
)
flags.DEFINE_integer(
  "max_body_bytes", 1 << 20, "Largest request; larger ones are refused with "
  "413.", lower_bound=1,
)
flags.DEFINE_float(
  "timeout_s", 30.0,
  "A request that is not answered by then is refused with 504; a connection "
  "on which no request has come by then is closed.",
  lower_bound=0.001,
)
flags.DEFINE_integer(
  "num_threads", 0, "Threads that compute; 0: one for each CPU core.",
  lower_bound=0,
)

# --help and mistakes are answered before TensorFlow is loaded.
command.parse_flags(__name__)

import os

import tensorflow as tf
from absl import logging

from common import errors
from serving import batching, rest, saved_model, server


def model_name(settings):
  """Returns --model_name, or the name of the folder above the version's."""
  if settings.model_name:
    return settings.model_name
  folder = os.path.abspath(settings.saved_model_dir)
  name = os.path.basename(folder)
  if name.isdecimal():
    # The folder above that of the version, as TensorFlow Serving names models.
    name = os.path.basename(os.path.dirname(folder))
  return name


def make_batcher(settings, run):
  """Returns the batching.Batcher of the flags."""
  return batching.Batcher(
    run,
    max_batch_size=settings.max_batch_size,
    max_delay=settings.max_batch_delay_ms / 1000,
    max_queue=settings.max_queue,
    join=settings.batch_requests,
  )


def main(_):
  settings = flags.read_settings()
  name = model_name(settings)
  if not name or set(name) & set("/:"):
    raise errors.InputError(
      f"--model_name={name!r} cannot be part of a URL; use neither / nor :"
    )
  # Before the model is loaded: afterwards TensorFlow has made its threads.
  tf.config.threading.set_intra_op_parallelism_threads(settings.num_threads)
  model = saved_model.LoadedModel(
    settings.saved_model_dir, settings.max_batch_size
  )
  batcher = make_batcher(settings, lambda key, rows: model.run(key[0], rows))
  application = server.make_application(
    model,
    batcher,
    name=name,
    max_body_bytes=settings.max_body_bytes,
    timeout=settings.timeout_s,
  )
  logging.info("loaded %s", model.folder)
  if settings.port:  # Else it is only known, and printed, later.
    logging.info("ask it: %s", rest.example_request(
      model.specs["serving_default"], settings.host, settings.port, name
    ))
  server.run(
    application, settings.host, settings.port, name, timeout=settings.timeout_s
  )
  logging.info(
    "stopped; %d texts in %d batches",
    batcher.num_instances, batcher.num_batches,
  )


if __name__ == "__main__":
  command.run(main)
