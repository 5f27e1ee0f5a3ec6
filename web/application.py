"""The application: models, the checks of all requests, and the forms' paths.

  GET  /healthz     whether the server answers
  GET  /metrics     counts and latencies, for Prometheus

Each file of web/forms adds paths. A refusal is a JSON object with the key
"error". Its status is 400 for an invalid request, 403 for a Host that is not
allowed, 404 for an unknown path, model or version, 405 for another method, 413
for a body that is too large, 500 for an internal error, 503 for too many
requests or connections or during a shutdown, and 504 for a timeout. The log
also has 499, for a client that left.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple

from answering import answers
from common import errors, json_files
from web import metrics, refusals, shared_network, work_queue

with errors.needs_extra("serve"):
  from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BUSY = web.AppKey("busy", set)
LOG = web.AppKey("log", refusals.LimitedLog)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Hosted(NamedTuple):
  """A model of the server.

  Attributes:
    name: the model's name in URLs.
    model: the answers.Served.
    queue: computes the model's answers.
    network: the model's network, which all requests share.
  """

  name: str
  model: answers.Served
  queue: work_queue.WorkQueue
  network: shared_network.SharedNetwork

  async def answer(self, rows: list[tuple]) -> list[dict]:
    """Returns the answers to instances; see work_queue.WorkQueue.submit."""
    mask = self.model.tokenizer.specials.mask
    answers.check(self.model.settings.head, rows, mask)
    return await self.queue.submit(rows)


def host(name: str, model: answers.Served, limits: work_queue.Limits) -> Hosted:
  """Returns a model with a queue, whose requests share its network."""
  network = shared_network.SharedNetwork(model.network, limits)
  queue = work_queue.WorkQueue(model.answerer(network), limits, network.fault)
  network.num_requests = lambda: queue.num_running
  return Hosted(name, model, queue, network)


class Site:
  """The server's models and paths, to which each form adds its own.

  Attributes:
    hosted: {name: Hosted}.
    application: the aiohttp application.
    described: (method, path, values of an OpenAPI operation) of each path.
    guards: functions of a request that raise web.HTTPException to refuse it.
    error_forms: {path: function of a refusal's sentence and status, which
      returns the value of "error"}; by default it is the sentence.
  """

  def __init__(
    self,
    hosted: Sequence[Hosted],
    limits: work_queue.Limits,
    hosts: frozenset[str] = frozenset(),
  ):
    """Creates the application, without the forms' paths.

    Args:
      hosts: see `allowed_hosts`.
    """
    self.hosted = {each.name: each for each in hosted}
    self.described: list[tuple[str, str, dict]] = []
    self.guards: list[Callable[[web.Request], None]] = []
    self.error_forms: dict[str, Callable[[str, int], Any]] = {}
    self._timeout, self._hosts = limits.timeout_s, hosts
    self._metrics = metrics.Requests()
    self.application = web.Application(
      client_max_size=limits.max_body_bytes,
      middlewares=[self._count, self._refuse],
    )
    self.application[BUSY] = set()
    self.application[LOG] = refusals.LimitedLog()
    self.get("/healthz", self._health, "Whether the server answers.")
    self.get("/metrics", self._show_metrics, "Counts and latencies.")
    for each in hosted:
      self.application.on_cleanup.append(each.queue.close)

  def get(self, path: str, handler: Handler, summary: str) -> None:
    """Adds a path for GET."""
    self._add("GET", path, handler, {"summary": summary})

  def post(
    self,
    path: str,
    handler: Callable[[web.Request, dict], Awaitable[Any]],
    summary: str,
    body: dict,
    hosted: Callable[[web.Request], Hosted] | None = None,
  ) -> None:
    """Adds a path that takes a JSON object, and returns JSON.

    Args:
      handler: coroutine of the request and its parsed body; returns the
        response's values.
      body: JSON schema of the body, for the OpenAPI description.
      hosted: finds the model; its full queue refuses a request before its body.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
      if encoding := request.headers.get("Content-Encoding"):
        raise errors.InputError(
          f"Content-Encoding {encoding!a:.40}: send the JSON uncompressed"
        )
      # If the queue is full, refuse the request before its body takes memory.
      for each in [hosted(request)] if hosted else self.hosted.values():
        each.queue.require_room()
      # The timeout includes reading the body: no slow client blocks a handler.
      return await asyncio.wait_for(answer(request), self._timeout)

    async def answer(request: web.Request) -> web.StreamResponse:
      values = json_object(await refusals.read_body(request))
      return refusals.json_response(await handler(request, values))

    content = {"application/json": {"schema": body}}
    described = {"summary": summary, "requestBody": {"content": content}}
    self._add("POST", path, handle, described)

  def find(
    self, name: Any, fits: Callable[[answers.Served], bool], needed: str
  ) -> Hosted:
    """Returns the model of a name, or else the only model that fits.

    Args:
      name: the value of "model" in a request; None if there is none.
      fits: whether a model can answer the request.
      needed: what `fits` means, such as "a reranker".

    Raises:
      web.HTTPNotFound: no model has this name.
      InputError: the model does not fit, or not exactly one fits.
    """
    if name is None:
      fitting = [e for e in self.hosted.values() if fits(e.model)]
      if len(fitting) == 1:
        return fitting[0]
      known = ", ".join(each.name for each in fitting) or "none"
      raise errors.InputError(
        f'give the name of {needed} as "model"; this server has {known}'
      )
    if not isinstance(name, str):
      raise errors.InputError(f'"model" is {name!a:.40}; expected a name')
    if name not in self.hosted:
      raise web.HTTPNotFound(
        text=f"no model {name!r}; this server has {', '.join(self.hosted)}"
      )
    if not fits(self.hosted[name].model):
      raise errors.InputError(f"the model {name!r} is not {needed}")
    return self.hosted[name]

  def _add(
    self, method: str, path: str, handler: Handler, operation: dict
  ) -> None:
    self.application.router.add_route(method, path, handler)
    self.described.append((method, path, operation))

  @web.middleware
  async def _count(
    self, request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    """Middleware: counts prediction requests and tracks busy connections."""
    began, busy = time.monotonic(), request.app[BUSY]
    request[refusals.HANDLED] = True
    busy.add(request.protocol)
    try:
      response = await handler(request)
    finally:
      busy.discard(request.protocol)
    if request.method == "POST":
      self._metrics.add(response.status, time.monotonic() - began)
    return response

  @web.middleware
  async def _refuse(
    self, request: web.Request, handler: Handler
  ) -> web.StreamResponse:
    """Middleware: turns an exception into a response with an error message."""
    try:
      self._check_host(request)
      for guard in self.guards:
        guard(request)
      return await handler(request)
    except Exception as error:
      log, form = request.app[LOG], self.error_forms.get(request.path)
      forms = (form,) if form else ()
      return refusals.response(error, request, log, *forms)

  def _check_host(self, request: web.Request) -> None:
    name = refusals.host_name(request.headers.get("Host", ""))
    # /healthz allows any Host, because container platforms send an IP address.
    if self._hosts and request.path != "/healthz" and name not in self._hosts:
      raise web.HTTPForbidden(
        text=f"the Host {name!r:.60} is not allowed; name it in --allowed_hosts"
      )

  async def _health(self, request: web.Request) -> web.Response:
    del request
    faults = {
      n: f for n, each in self.hosted.items() if (f := each.queue.fault())
    }
    if faults:
      return refusals.json_response(
        {"status": "failing", "faults": faults}, 503
      )
    return refusals.json_response({"status": "ok"})

  async def _show_metrics(self, request: web.Request) -> web.Response:
    del request
    waiting = sum(each.queue.queue_length for each in self.hosted.values())
    return web.Response(
      text=self._metrics.text(waiting),
      headers={"Content-Type": metrics.CONTENT_TYPE},
    )


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


def json_object(body: bytes) -> dict:
  """Parses the body of a request; raises InputError if it is not an object."""
  try:
    values = json_files.parse(body)
  except errors.InputError as error:
    raise errors.InputError(f"the body is {error}") from error
  # A list or a number is JSON too.
  if not isinstance(values, dict):
    raise errors.InputError(
      f"the body is JSON, but not an object: {values!a:.40}; expected, for "
      'example, {"instances": [...]}'
    )
  return values
