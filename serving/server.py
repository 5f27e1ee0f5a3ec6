"""TensorFlow Serving's REST form over HTTP, for one model.

  POST /v1/models/NAME:predict             predictions
  GET  /v1/models/NAME                     state
  GET  /v1/models/NAME/metadata            signatures
  .../NAME/versions/NUMBER...              the same, if that is the version

Every refusal is a JSON object with the key "error": 400 a request that makes
no sense, 404 another model, 413 a body that is too large, 503 too many
requests or connections at once, 504 too long. A connection on which no whole
request comes in time is closed without an answer.
"""

import asyncio
import json
import os
import signal
import threading

import numpy as np
import tensorflow as tf
from absl import logging

from common import errors
from serving import batching, connections, rest

try:
  from aiohttp import web
except ImportError:  # An extra: only the server needs it.
  web = None
else:
  _LOG = web.AppKey("log", connections.LimitedLog)

_MODEL = "/v1/models/{name:[^/:]+}"
# From the signal to the end. aiohttp waits twice for the requests in progress:
# for their end, then for that of their reading.
_SECONDS_TO_END = 22.0
_SECONDS_TO_FINISH = 8.0
_LOG_LINES = 10  # About refused requests, in half a minute.


def make_application(
  model,
  batcher: batching.Batcher,
  *,
  name: str,
  max_body_bytes: int = 1 << 20,
  timeout: float = 30.0,
):
  """Returns an aiohttp.web.Application.

  Args:
    model: saved_model.LoadedModel, or what has its attributes.
    batcher: not started, of a function of `Request.key` and rows that returns
      what `model.run` does.
    name: of the model, in URLs.
    max_body_bytes: a longer request is refused.
    timeout: seconds within which a request must have been read and answered.

  Raises:
    InputError: aiohttp is not installed.
  """
  if web is None:
    raise errors.InputError(
      "the server needs aiohttp: run pip install aiohttp, or, in a clone of "
      "this project, pip install '.[serve]'"
    )
  handlers = _Handlers(model, batcher, name, timeout)
  application = web.Application(
    client_max_size=max_body_bytes, middlewares=[web.middleware(_refuse)]
  )
  for path in (_MODEL, _MODEL + "/versions/{version}"):
    application.router.add_post(path + ":predict", handlers.predict)
    application.router.add_get(path + "/metadata", handlers.metadata)
    application.router.add_get(path, handlers.status)
  application[_LOG] = connections.LimitedLog(_LOG_LINES)
  application.cleanup_ctx.append(_running(batcher))
  return application


def run(
  application, host: str, port: int, name: str, *, timeout: float = 30.0
) -> None:
  """Serves until SIGTERM or SIGINT, then answers what has been asked.

  It ends within 25 seconds, whatever clients do.

  Args:
    application: of `make_application`.
    host, port: where to listen; port 0 takes a free one.
    name: of the model; the URL is printed when it can be asked.
    timeout: seconds that a connection may be open without a whole request,
      before the first one and between two.

  Raises:
    InputError: one cannot listen there.
  """
  try:
    asyncio.run(_serve(application, host, port, name, timeout))
  except OSError as error:
    raise errors.InputError(
      f"cannot listen on {host}:{port} ({error.strerror}); give another "
      "--host or --port"
    ) from error


async def _serve(application, host, port, name, timeout):
  # No line in the log for each request.
  runner = web.AppRunner(
    application,
    handle_signals=False,
    access_log=None,
    logger=application[_LOG],
    keepalive_timeout=timeout,
    shutdown_timeout=_SECONDS_TO_FINISH,
  )
  stop = asyncio.Event()
  for number in (signal.SIGTERM, signal.SIGINT):
    # Not signal.signal: a handler of the loop may set an asyncio.Event.
    asyncio.get_running_loop().add_signal_handler(number, stop.set)
  await runner.setup()
  listener = None
  # A batch that is being computed cannot be stopped otherwise.
  end = threading.Timer(_SECONDS_TO_END, _end_now)
  end.daemon = True
  try:
    listener = await connections.listen(runner.server, host, port)
    address, port = listener.sockets[0].getsockname()[:2]
    print(f"http://{address}:{port}/v1/models/{name}", flush=True)
    await stop.wait()
    end.start()
  finally:
    if listener:
      # No new connections; those that are open finish below.
      listener.close()
    # Waits for the requests under way, then closes the batcher.
    await runner.cleanup()
    end.cancel()


def _end_now():
  logging.warning("ended before a batch was computed")
  os._exit(1)


def _running(batcher):
  async def context(_):
    batcher.start()
    yield
    await batcher.close()

  return context


class _Handlers:
  """What is done for each kind of request."""

  def __init__(self, model, batcher, name, timeout):
    self._model = model
    self._batcher = batcher
    self._name = name
    self._timeout = timeout
    self._specs = {
      signature: {
        # Strings are of the dtype object, as numpy has them.
        key: rest.InputSpec(
          spec.shape.rank, np.dtype(spec.dtype.as_numpy_dtype)
        )
        for key, spec in inputs.items()
      }
      for signature, inputs in model.specs.items()
    }

  async def predict(self, request):
    self._check_name(request)
    # With the reading of the body, so that a slow client cannot hold a handler.
    return await asyncio.wait_for(self._predict(request), self._timeout)

  async def _predict(self, request):
    parsed = rest.parse_predict(await request.read(), self._specs)
    rows = parsed.rows
    self._model.check(parsed.signature, rows)
    answers = await self._batcher.submit(parsed.key, rows)
    return _json(rest.format_predictions(answers, parsed.by_row))

  async def status(self, request):
    self._check_name(request)
    return _json(rest.format_status(self._model.version))

  async def metadata(self, request):
    self._check_name(request)
    definitions = {"signature_def": self._model.metadata()}
    spec = {"name": self._name, "version": str(self._model.version)}
    return _json(json.dumps({
      # The form of TensorFlow Serving, with its empty field.
      "model_spec": {**spec, "signature_name": ""},
      "metadata": {"signature_def": definitions},
    }))

  def _check_name(self, request):
    name = request.match_info["name"]
    version = request.match_info.get("version", str(self._model.version))
    if (name, version) != (self._name, str(self._model.version)):
      raise web.HTTPNotFound(
        text=f"no model {name!r} of version {version} here; this is "
        f"{self._name!r} of version {self._model.version}"
      )


def _json(text, status=200):
  return web.Response(
    text=text, status=status, content_type="application/json"
  )


def _reason(error):
  """Returns the line of TensorFlow's message that says what is wrong."""
  # What follows names nodes of the graph.
  message = error.message.split("\n\t [[")[0]
  reason = message.strip().split("\n")[-1]
  # Of tf.debugging.Assert: "assertion failed: [the sentence]".
  return reason.removeprefix("assertion failed: [").removesuffix("]")


async def _refuse(request, handler):
  """Middleware: an exception becomes a status and a sentence."""
  try:
    return await handler(request)
  except errors.InputError as error:
    refusal = 400, str(error)
  except tf.errors.InvalidArgumentError as error:
    refusal = 400, f"the model cannot take this: {_reason(error)}"
  except web.HTTPRequestEntityTooLarge as error:
    refusal = 413, f"the body is too large: {error.text}"
  except web.HTTPException as error:
    refusal = error.status, error.text
  except batching.QueueFull:
    refusal = 503, "too many requests are waiting; try again later"
  except batching.Closed:
    refusal = 503, "the server is shutting down"
  except asyncio.TimeoutError:
    refusal = 504, "this took too long; send less at once or try again later"
  except asyncio.CancelledError:  # The client has gone.
    raise
  # Nothing of the trace goes to a client, who may be anybody.
  except Exception:
    logging.exception("%s %s", request.method, request.path)
    refusal = 500, "a fault of the server; its log has the details"
  status, sentence = refusal
  request.app[_LOG].warning(
    "%s %.100a from %s: %d %.200a",
    request.method, request.path, request.remote, status, sentence,
  )
  return _json(rest.format_error(sentence), status)
