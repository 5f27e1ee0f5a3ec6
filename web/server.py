"""Serves one model over HTTP with TensorFlow Serving's REST interface.

  POST /v1/models/NAME:predict             predictions
  GET  /v1/models/NAME                     state
  GET  /v1/models/NAME/metadata            names of the inputs
  .../NAME/versions/NUMBER...              the same, with the model's version
  GET  /                                   a page for trying the model
  GET  /healthz                            whether the server answers
  GET  /metrics                            counts and latencies, for Prometheus

A refusal is a JSON object with the key "error", or plain text if aiohttp cannot
parse a request. Its status is 400 for an invalid request, 403 for a Host that
is not allowed, 404 for an unknown path, model or version, 405 for another
method, 413 for a body that is too large, 500 for an internal error, 503 for too
many requests or connections or during a shutdown, and 504 for a timeout.
The server closes a connection on which no complete request arrives in time.
"""

import asyncio
import functools
import json
import os
import signal
import threading
import time
from collections.abc import Iterable

from absl import logging

from answering import answers
from common import errors
from web import batching, connections, metrics, page, rest

with errors.needs_extra("serve"):
  from aiohttp import web

_BUSY = web.AppKey("busy", set)
_HOSTS = web.AppKey("hosts", frozenset)
_METRICS = web.AppKey("metrics", metrics.Requests)
_MODEL = "/v1/models/{name:[^/:]+}"
# Seconds from a signal until a busy process is ended; `run` promises 25.
_SECONDS_TO_END = 22.0
# Maximum seconds aiohttp waits for answers, and again for clients to read them.
_SECONDS_TO_FINISH = 8.0
# At most _LOG_LINES lines about refused requests in _LOG_INTERVAL seconds.
_LOG_LINES, _LOG_INTERVAL = 10, 30.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _LimitedLog:
  """Logs at most _LOG_LINES warnings per _LOG_INTERVAL, including aiohttp's."""

  def __init__(self):
    self._began, self._count = -_LOG_INTERVAL, 0

  def warning(self, line, *values):
    now = time.monotonic()
    if now - self._began > _LOG_INTERVAL:
      self._began, self._count = now, 0
    self._count += 1
    if self._count <= _LOG_LINES:
      logging.warning(line, *values)

  # aiohttp calls `exception` for some malformed requests, `debug` for others.

  def exception(self, line, *values, exc_info=None):
    self.warning(f"{line}: %.200a", *values, str(exc_info))

  def debug(self, *_, **__):
    pass


_LOG = web.AppKey("log", _LimitedLog)


def allowed_hosts(names: Iterable[str], host: str) -> frozenset[str]:
  """Returns the names that a Host header may have; an empty set allows all.

  Args:
    names: values of --allowed_hosts.
    host: the host on which the server listens.
  """
  if "*" in names:
    return frozenset()
  chosen = frozenset(name.strip("[]").lower() for name in names)
  return chosen or (_LOOPBACK if host in _LOOPBACK else chosen)


def make_application(
  model: answers.Served,
  name: str,
  batcher: batching.Batcher,
  limits: batching.Limits,
  hosts: frozenset[str] = frozenset(),
) -> web.Application:
  """Returns the application, which starts and closes the batcher.

  The batcher must run `model.answer`. For `hosts` see `allowed_hosts`.
  """
  handlers = _Handlers(model, name, batcher, limits.timeout_s)
  application = web.Application(
    client_max_size=limits.max_body_bytes,
    middlewares=[web.middleware(_count), web.middleware(_refuse)],
  )
  for path in (_MODEL, _MODEL + "/versions/{version}"):
    application.router.add_post(path + ":predict", handlers.predict)
    application.router.add_get(path + "/metadata", handlers.metadata)
    application.router.add_get(path, handlers.status)
  application.router.add_get("/", handlers.page)
  application.router.add_get("/healthz", handlers.health)
  application.router.add_get("/metrics", handlers.metrics)
  application[_METRICS] = metrics.Requests()
  application[_HOSTS] = hosts
  application[_BUSY] = set()
  application[_LOG] = _LimitedLog()
  application.on_startup.append(batcher.start)
  application.on_cleanup.append(batcher.close)
  return application


def run(
  application: web.Application, host: str, port: int, name: str, timeout: float
) -> None:
  """Serves until SIGTERM or SIGINT, then answers the requests in progress.

  The process ends within 25 seconds, even if clients are slow. Raises
  InputError: the server cannot listen on the host and port.

  Args:
    application: the result of `make_application`.
    host, port: the address to listen on; port 0 means any free port.
    name: the model's name, for the URL that is printed at the start.
    timeout: seconds for which a connection may be open without a complete
      request, before the first request and between two requests.
  """
  try:
    asyncio.run(_serve(application, host, port, name, timeout))
  except OSError as error:
    raise errors.InputError(
      f"cannot listen on {host}:{port} ({error.strerror}); give another "
      "--host or --port"
    ) from error


async def _serve(application, host, port, name, timeout):
  runner = web.AppRunner(
    application,
    handle_signals=False,
    access_log=None,
    logger=application[_LOG],
    keepalive_timeout=timeout,
    shutdown_timeout=_SECONDS_TO_FINISH,
    # aiohttp would fail on a body that does not match its Content-Encoding.
    auto_decompress=False,
  )
  stop, loop = asyncio.Event(), asyncio.get_running_loop()
  for number in (signal.SIGTERM, signal.SIGINT):
    # Windows lacks loop.add_signal_handler.
    signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop.set))
  await runner.setup()
  listener = None
  # Only the end of the process can stop a batch that a thread computes.
  end = threading.Timer(_SECONDS_TO_END, _end_now)
  end.daemon = True
  busy, most = application[_BUSY], connections.most_by_default()
  try:
    listener = await connections.listen(runner.server, busy, host, port, most)
    address, port = listener.sockets[0].getsockname()[:2]
    print(rest.model_url(address, port, name), flush=True)
    await stop.wait()
    end.start()
  finally:
    if listener:
      # This refuses only new connections; open ones finish below.
      listener.close()
    # Wait for the requests in progress, then close the batcher.
    await runner.cleanup()
    end.cancel()


def _end_now():
  logging.warning("the server stopped before the last batch was computed")
  os._exit(1)


class _Handlers:
  """The functions that handle requests."""

  def __init__(self, model, name, batcher, timeout):
    self._model, self._batcher, self._timeout = model, batcher, timeout
    self._name, self._version = name, str(model.version)

  async def predict(self, request):
    self._check_name(request)
    if encoding := request.headers.get("Content-Encoding"):
      raise errors.InputError(
        f"Content-Encoding {encoding!r:.40}: send the JSON uncompressed"
      )
    # If the queue is full, refuse the request before its body takes memory.
    self._batcher.require_room()
    # The timeout includes reading the body, so no slow client blocks a handler.
    return await asyncio.wait_for(self._predict(request), self._timeout)

  async def _predict(self, request):
    body = await request.read()
    rows, by_row = rest.parse_predict(body, self._model.texts)
    answers.check(self._model.head, rows, self._model.mask)
    return _json(rest.predictions(await self._batcher.submit(rows), by_row))

  async def page(self, request):
    del request
    model = self._model
    return web.Response(
      text=page.make(self._name, model.head, model.texts, model.mask),
      content_type="text/html",
      headers={
        "Content-Security-Policy": page.security_policy(),
        "X-Content-Type-Options": "nosniff",
      },
    )

  async def health(self, request):
    del request
    return _json({"status": "ok"})

  async def metrics(self, request):
    text = request.app[_METRICS].text(self._batcher)
    headers = {"Content-Type": metrics.CONTENT_TYPE}
    return web.Response(text=text, headers=headers)

  async def status(self, request):
    self._check_name(request)
    state = {"error_code": "OK", "error_message": ""}
    status = {"version": self._version, "state": "AVAILABLE", "status": state}
    return _json({"model_version_status": [status]})

  async def metadata(self, request):
    self._check_name(request)
    definitions = {"signature_def": rest.metadata(self._model.texts)}
    metadata = {"signature_def": definitions}
    # In TensorFlow Serving's answer, signature_name is empty too.
    spec = {"name": self._name, "version": self._version, "signature_name": ""}
    return _json({"model_spec": spec, "metadata": metadata})

  def _check_name(self, request):
    name = request.match_info["name"]
    version = request.match_info.get("version", self._version)
    if (name, version) != (self._name, self._version):
      raise web.HTTPNotFound(
        text=f"no model {name!r} with version {version}; this server has "
        f"{self._name!r} with version {self._version}"
      )


def _json(values, status=200):
  dumps = functools.partial(json.dumps, ensure_ascii=False)
  return web.json_response(values, status=status, dumps=dumps)


async def _count(request, handler):
  """Middleware: counts prediction requests and tracks busy connections."""
  began, busy = time.monotonic(), request.app[_BUSY]
  busy.add(request.protocol)
  try:
    response = await handler(request)
  finally:
    busy.discard(request.protocol)
  if request.path.endswith(":predict"):
    seconds = time.monotonic() - began
    request.app[_METRICS].add(response.status, seconds)
  return response


async def _refuse(request, handler):
  """Middleware: turns an exception into a response with an error message."""
  try:
    hosts = request.app[_HOSTS]
    # /healthz allows any Host, because container platforms send an IP address.
    if (
      hosts
      and request.path != "/healthz"
      and ((request.url.host or "").lower() not in hosts)
    ):
      raise web.HTTPForbidden(
        text=f"the Host {request.host!r:.60} is not allowed; name it in "
        "--allowed_hosts"
      )
    return await handler(request)
  except Exception as error:
    status, sentence = _refusal(error)
    if status == 500:
      logging.exception("%s %s", request.method, request.path)
  request.app[_LOG].warning(
    "%s %.100a from %s: %d %.200a",
    request.method,
    request.path,
    request.remote,
    status,
    sentence,
  )
  return _json({"error": sentence}, status)


def _refusal(error):
  """Returns the status and the error message for an exception."""
  match error:
    case errors.InputError():
      return 400, str(error)
    case web.HTTPRequestEntityTooLarge():
      return 413, f"the body is too large: {error.text}"
    case web.HTTPException():
      return error.status, error.text
    case batching.QueueFull():
      return 503, "too many requests are waiting; try again later"
    case batching.Closed():
      return 503, "the server is shutting down"
    case asyncio.TimeoutError():
      return 504, "the request took too long; send less or try again later"
  # The client may be anybody, so the response reveals nothing about the code.
  return 500, "the server failed; its log has the details"
