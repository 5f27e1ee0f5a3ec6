"""Tests each status of server.py over real connections to a fake model."""

import asyncio
import errno
import importlib
import json
import os
import re
import signal
import sys
import threading
import time
import types

import aiohttp
import aiohttp.web
import numpy as np
import pytest
from aiohttp import test_utils

import served
from answering import answers
from common import errors
from message_facts import says
from web import application, metrics, refusals, server, work_queue


class Model:
  """Counts the letters of strings."""

  def __init__(self):
    self.started = threading.Semaphore(0)
    self.may_finish = threading.Event()
    self.may_finish.set()

  def answer(self, rows):
    self.started.release()
    assert self.may_finish.wait(60)
    texts = [text for (text,) in rows]
    if "bad" in texts:
      raise errors.InputError("the model cannot take this: no such id")
    if "fault" in texts:
      raise KeyError("fault")
    return [{"length": len(text)} for text in texts]


def serve(test, *, timeout=60.0, **options):
  model = Model()
  limits = work_queue.Limits(
    max_batch_delay_ms=0, max_body_bytes=1000, timeout_s=timeout, **options
  )

  async def main():
    fake = served.model(model.answer, version=4)
    async with served.asking(fake, limits) as ask:
      try:
        await test(ask, model)
      finally:
        model.may_finish.set()

  asyncio.run(main())


def body(*texts):
  return json.dumps({"instances": texts}).encode()


def test_predictions_state_and_metadata():
  async def test(ask, model):
    expected = 200, {"predictions": [1, 2]}
    assert await ask("m:predict", body("a", "bc")) == expected
    path = "m/versions/4"
    assert await ask(f"{path}:predict", body("a", "bc")) == expected
    status, state = await ask(path)
    assert status == 200
    assert state == {
      "model_version_status": [
        {
          "version": "4",
          "state": "AVAILABLE",
          "status": {"error_code": "OK", "error_message": ""},
        }
      ]
    }
    status, metadata = await ask("m/metadata")
    assert metadata["model_spec"] == {
      "name": "m",
      "version": "4",
      "signature_name": "",
    }
    shape = {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}
    # As in TensorFlow Serving, the key occurs twice.
    assert metadata["metadata"]["signature_def"]["signature_def"] == {
      "serving_default": {
        "inputs": {"text": {"dtype": "DT_STRING", "tensor_shape": shape}},
        "outputs": {},
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
      }
    }

  serve(test)


@pytest.mark.parametrize(
  "path, request_, status, sentence",
  [
    ("m:predict", b"{", 400, "the body is not JSON"),
    ("m:predict", body("a", ""), 400, "text number 1: an empty text"),
    ("m:predict", body("a", "b", "c"), 400, "3 instances in one request"),
    ("m:predict", body("bad"), 400, "the model cannot take this: no such id"),
    ("n:predict", body("a"), 404, "no model 'n'"),
    ("m/versions/5:predict", body("a"), 404, "with version 5"),
    ("n", None, 404, "no model 'n'"),
    ("m/what", None, 404, "404"),
    ("m:predict", None, 405, "405"),
    ("m:predict", body("a" * 2000), 413, "the body is too large"),
    ("m:predict", body("fault"), 500, "the server failed"),
  ],
)
def test_refusals(path, request_, status, sentence):
  async def test(ask, model):
    answer = await ask(path, request_)
    assert answer[0] == status and sentence in answer[1]["error"]
    assert (await ask("m:predict", body("a")))[0] == 200

  serve(test, max_batch_size=2, max_queue=2)


def test_a_text_without_the_mask_is_refused():
  async def main():
    fake = served.model(
      lambda rows: [{"fillings": []}] * len(rows), "masked_lm"
    )
    async with served.asking(fake) as ask:
      assert (await ask("m:predict", body("a [MASK]")))[0] == 200
      status, answer = await ask("m:predict", body("[MASK]", "a <mask>"))
      assert status == 400
      assert re.search(says("1", "[MASK]", "'a <mask>'", "no"), answer["error"])

  asyncio.run(main())


def test_too_many_requests_and_too_slow_answers():
  async def test(ask, model):
    model.may_finish.clear()
    tasks = [asyncio.create_task(ask("m:predict", body("a"))) for _ in "abc"]
    answers = [status for status, _ in await asyncio.gather(*tasks)]
    assert sorted(answers) == [503, 504, 504]

  serve(test, timeout=0.5, max_queue=2)


POST = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\n"


def test_a_full_queue_refuses_a_request_before_its_body():
  async def test(ask, model):
    model.may_finish.clear()
    tasks = []
    for _ in range(2):
      request = ask("m:predict", body("a"))
      tasks.append(asyncio.create_task(request))
      await asyncio.sleep(0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", ask.port)
    writer.write(POST + b"Content-Length: 9\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
    writer.close()
    model.may_finish.set()
    assert [status for status, _ in await asyncio.gather(*tasks)] == [200, 200]

  serve(test, max_queue=2)


@pytest.mark.parametrize(
  "sent", [b"", b"POST /v1/mod", POST, POST + b"Content-Length: 9\r\n\r\n{"]
)
def test_half_a_request_does_not_delay_the_shutdown(sent, monkeypatch, capsys):
  """A signal to this process ends the server, as in serve.py."""
  monkeypatch.setattr(server, "_SECONDS_TO_FINISH", 0.2)
  model = Model()
  site = served.site(
    {"m": served.model(model.answer)}, work_queue.Limits(timeout_s=0.1)
  )
  site.application.on_startup.append(lambda _: begin())
  closed, tasks = [], []

  async def begin():
    # The list keeps the task alive; the loop has only a weak reference.
    tasks.append(asyncio.create_task(client()))

  async def client():
    while not (printed := capsys.readouterr().out):
      await asyncio.sleep(0.01)
    port = int(printed.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    closed.append(await reader.read(12))
    _, second_writer = await asyncio.open_connection("127.0.0.1", port)
    second_writer.write(sent)
    await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

  began = time.monotonic()
  server.run(site, "127.0.0.1", 0, 0.1)
  assert closed == [b"HTTP/1.1 504" if b"{" in sent else b""]
  assert time.monotonic() - began < 3


def test_an_endless_batch_does_not_delay_the_shutdown(monkeypatch, caplog):
  model, ended = Model(), []
  model.may_finish.clear()
  monkeypatch.setattr(server, "_SECONDS_TO_FINISH", 0.01)
  monkeypatch.setattr(server, "_SECONDS_TO_END", 0.1)
  monkeypatch.setattr(
    os, "_exit", lambda code: (ended.append(code), model.may_finish.set())
  )
  site = served.site({"m": served.model(model.answer)}, work_queue.Limits())
  tasks = []

  async def begin(_):
    queue = site.hosted["m"].queue
    tasks.append(asyncio.create_task(queue.submit([("a",)])))

  def end():
    model.started.acquire()
    os.kill(os.getpid(), signal.SIGTERM)

  site.application.on_startup.append(begin)
  threading.Thread(target=end).start()
  server.run(site, "127.0.0.1", 0, 30.0)
  assert ended == [1]
  assert "before the last batch was computed" in caplog.text


def test_a_server_that_ends_in_time_is_not_killed(monkeypatch, capsys):
  ended = []
  monkeypatch.setattr(server, "_SECONDS_TO_END", 0.2)
  monkeypatch.setattr(os, "_exit", ended.append)
  site = served.site({"m": served.model(Model().answer)}, work_queue.Limits())

  async def stop(_):
    os.kill(os.getpid(), signal.SIGINT)

  site.application.on_startup.append(stop)
  server.run(site, "127.0.0.1", 0, 30.0)
  time.sleep(0.3)
  assert not ended
  assert capsys.readouterr().out.count("/v1/models/m\n") == 1


def test_the_end_of_the_server_fits_into_its_promise():
  """Answers in progress, then clients that read; at last the process ends."""
  assert 2 * server._SECONDS_TO_FINISH < server._SECONDS_TO_END < 25


def test_refusals_are_logged_in_one_line_each_up_to_a_limit(caplog):
  async def test(ask, model):
    for _ in range(12):
      await ask("m:predict", b'{"instances": [' + b"[" * 500)
      await ask("m%0Am", b"{}")

  serve(test)
  lines = [record.getMessage() for record in caplog.records]
  assert len(lines) == 10 and not any("\n" in line for line in lines)
  assert lines[0].startswith("POST '/v1/models/m:predict' from 127.0.0.1: 400 ")


@pytest.mark.parametrize(
  "counts, rows",
  [
    ({}, ["bert_request_duration_seconds_sum 0.0"]),
    (
      {200: [0.004, 0.01, 99.0], 503: [0.006]},
      [
        'bert_requests_total{status="200"} 3',
        'bert_requests_total{status="503"} 1',
        'bert_request_duration_seconds_bucket{le="0.005"} 1',
        'bert_request_duration_seconds_bucket{le="0.01"} 3',
        'bert_request_duration_seconds_bucket{le="30.0"} 3',
        'bert_request_duration_seconds_bucket{le="+Inf"} 4',
        "bert_request_duration_seconds_sum 99.02",
        "bert_request_duration_seconds_count 4",
        "bert_queue_texts 0",
      ],
    ),
  ],
)
def test_metrics_of_requests(counts, rows):
  requests = metrics.Requests()
  for status, times in counts.items():
    for seconds in times:
      requests.add(status, seconds)
  lines = requests.text(0).splitlines()
  assert set(rows) <= set(lines)
  # A line with the type precedes the samples of each metric.
  assert sum(line.startswith("# TYPE bert_") for line in lines) == 3
  for line in lines:
    name, value, *_ = line.removeprefix("# TYPE ").split(" ")
    assert (
      name == "#"
      or value in ("counter", "gauge", "histogram")
      or (float(value) >= 0)
    )


def test_a_histogram_counts_each_duration_up_to_each_bound():
  bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
  requests = metrics.Requests()
  for bound in bounds:
    requests.add(200, bound)
  requests.add(200, 30.5)
  lines = requests.text(5).splitlines()
  name = "bert_request_duration_seconds_bucket"
  found = re.findall(rf'{name}{{le="(.*)"}} (\d+)', "\n".join(lines))
  assert [(float(bound), int(count)) for bound, count in found] == [
    *zip(bounds, range(1, 13)),
    (float("inf"), 13),
  ]
  assert lines[-1] == "bert_queue_texts 5"


def test_metrics_count_answers_refusals_and_waiting_texts():
  async def numbers(port):
    async with aiohttp.ClientSession() as session:
      async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
        assert answer.headers["Content-Type"] == metrics.CONTENT_TYPE
        text = await answer.text()
    lines = [line for line in text.splitlines() if line[0] != "#"]
    return dict(line.rsplit(" ", 1) for line in lines)

  async def test(ask, model):
    await ask("m:predict", body("a", "bc"))
    await ask("m:predict", b"{")
    await ask("m")  # Not a prediction.
    counts = await numbers(ask.port)
    assert counts['bert_requests_total{status="200"}'] == "1"
    assert counts['bert_requests_total{status="400"}'] == "1"
    assert counts["bert_request_duration_seconds_count"] == "2"
    assert 0 < float(counts["bert_request_duration_seconds_sum"]) < 60
    model.may_finish.clear()
    waiting_request = asyncio.create_task(ask("m:predict", body("a", "b", "c")))
    await asyncio.get_running_loop().run_in_executor(
      None, lambda: [model.started.acquire() for _ in range(2)]
    )
    assert (await numbers(ask.port))["bert_queue_texts"] == "3"
    model.may_finish.set()
    assert (await waiting_request)[0] == 200
    assert (await numbers(ask.port))["bert_queue_texts"] == "0"

  serve(test)


@pytest.mark.parametrize(
  "header, name",
  [
    ("localhost", "localhost"),
    ("LOCALHOST:80", "localhost"),
    ("[::1]", "::1"),
    ("[::FFFF:1.2.3.4]:8501", "::ffff:1.2.3.4"),
    ("a.b-c_d:65535", "a.b-c_d"),
    ("a:0", "a"),
    ("a:", "a"),
    (":80", ""),
    ("", ""),
    ("a:65536", None),
    ("a:123456", None),
    ("::1", None),
    ("a b", None),
    ("\u00e9", None),
  ],
)
def test_the_name_in_a_host_header(header, name):
  if name is not None:
    assert refusals.host_name(header) == name
    return
  with pytest.raises(refusals.Malformed):
    refusals.host_name(header)


@pytest.mark.parametrize(
  "error, status",
  [
    (errors.InputError("x"), 400),
    (refusals.Malformed("x"), 400),
    (refusals.ClientLeft(), 499),
    (aiohttp.web.HTTPRequestEntityTooLarge(1, 2), 413),
    (aiohttp.web.HTTPNotFound(text="x"), 404),
    (aiohttp.web.HTTPMethodNotAllowed("GET", ["POST"]), 405),
    (work_queue.QueueFull(), 503),
    (work_queue.Closed(), 503),
    (asyncio.TimeoutError(), 504),
    (work_queue.Fault("secret"), 500),
    (KeyError("secret"), 500),
  ],
)
def test_the_status_of_each_exception(error, status):
  found, sentence = refusals.of(error)
  assert found == status and "secret" not in sentence


@pytest.mark.parametrize(
  "error, name, value",
  [
    (aiohttp.web.HTTPMethodNotAllowed("GET", ["PUT", "POST"]), "Allow", "PUT"),
    (
      aiohttp.web.HTTPUnauthorized(headers={"WWW-Authenticate": "Basic"}),
      "WWW-Authenticate",
      "Basic",
    ),
  ],
)
def test_a_refusal_keeps_the_header_that_http_asks_for(error, name, value):
  request = test_utils.make_mocked_request("GET", "/")
  refused = refusals.response(error, request, refusals.LimitedLog())
  assert value in refused.headers[name]
  assert refused.content_type == "application/json"
  assert refused.charset == "utf-8"


@pytest.mark.parametrize(
  "handled, status, error, message, expected",
  [
    (False, 400, None, "no colon", (400, "malformed HTTP: no colon")),
    (False, 500, ValueError("odd"), None, (400, "malformed HTTP: odd")),
    (True, 400, ValueError("odd"), None, (400, "malformed HTTP: odd")),
    (True, 500, None, None, (400, "the request is malformed")),
    # A fault of this program's own code.
    (True, 500, KeyError("secret"), None, (500, "the server failed")),
  ],
)
def test_what_no_handler_got_is_refused_and_ends_the_connection(
  handled, status, error, message, expected, caplog
):
  request = test_utils.make_mocked_request("GET", "/")
  request.writer.output_size = 0
  request[refusals.HANDLED] = handled
  protocol = types.SimpleNamespace(logger=refusals.LimitedLog())
  handle = refusals.Protocol.handle_error
  refused = handle(protocol, request, status, error, message)
  sentence = json.loads(refused.body)["error"]
  assert refused.status == expected[0] and sentence.startswith(expected[1])
  assert refused.keep_alive is False
  assert (caplog.records[0].exc_info is not None) == (refused.status == 500)
  request.writer.output_size = 1
  with pytest.raises(ConnectionError, match="sent already"):
    handle(protocol, request, status, error, message)


def test_an_exception_that_aiohttp_logs_is_one_line(caplog):
  log = refusals.LimitedLog()
  log.exception("Error of %s", "a client", exc_info=ValueError("two\nlines"))
  log.debug("Uncompleted request.")
  assert caplog.messages == ["Error of a client: 'two\\nlines'"]


def test_the_log_of_refusals_begins_again_after_its_interval(
  monkeypatch, caplog
):
  times = [100.0] * 12 + [130.0, 130.5, 160.5, 161.0]
  monkeypatch.setattr(refusals.time, "monotonic", iter(times).__next__)
  log = refusals.LimitedLog()
  for number in range(len(times)):
    log.warning("line %d", number)
  # Ten lines in half a minute; the eleventh and later ones are left out.
  assert caplog.messages == [f"line {n}" for n in (*range(10), 13, 14, 15)]


def test_without_aiohttp(monkeypatch):
  monkeypatch.setitem(sys.modules, "aiohttp", None)
  with pytest.raises(errors.InputError, match="needs aiohttp"):
    importlib.reload(server)


@pytest.mark.parametrize(
  "names, host, allowed",
  [
    ([], "127.0.0.1", {"localhost", "127.0.0.1", "::1"}),
    ([], "0.0.0.0", set()),
    (["Models.example", "[::1]"], "0.0.0.0", {"models.example", "::1"}),
    (["a", "*"], "127.0.0.1", set()),
  ],
)
def test_hosts_by_default_and_by_name(names, host, allowed):
  assert application.allowed_hosts(names, host) == allowed


def test_another_host_and_an_encoding_are_refused_in_one_line(caplog):
  hosts = application.allowed_hosts([], "127.0.0.1")

  async def main():
    async with (
      served.asking(served.model(Model().answer), None, *hosts) as ask,
      aiohttp.ClientSession(f"http://127.0.0.1:{ask.port}") as session,
    ):
      for host, path, status in (
        ("localhost:80", "/v1/models/m", 200),
        ("LOCALHOST", "/healthz", 200),
        ("evil.example", "/v1/models/m", 403),
        ("evil.example", "/", 403),
        ("10.0.0.7", "/healthz", 200),
        ("[::1]:8501", "/v1/models/m", 200),
      ):
        async with session.get(path, headers={"Host": host}) as answer:
          assert answer.status == status, (host, path)
      for encoding in ("gzip", "zstd"):
        async with session.post(
          "/v1/models/m:predict",
          data=body("a"),
          headers={"Content-Encoding": encoding},
        ) as answer:
          assert answer.status == 400
          assert "send the JSON uncompressed" in (await answer.json())["error"]

  asyncio.run(main())
  lines = [line for line in caplog.messages if "Content-Encoding" in line]
  assert len(lines) == 2 and "Traceback" not in caplog.text


def test_an_output_that_cannot_be_written_is_no_fault_of_the_port(monkeypatch):
  class Full:
    def write(self, _):
      raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self):
      pass

  site = served.site({"m": served.model(Model().answer)}, work_queue.Limits())
  monkeypatch.setattr(sys, "stdout", Full())
  with pytest.raises(OSError, match="No space left"):
    server.run(site, "127.0.0.1", 0, 30.0)


def test_a_long_text_does_not_hold_up_a_short_one():
  """A text of 60 windows, and another with it, each batch takes 20 ms."""
  batches = []

  def network(input_ids, **_):
    batches.append(len(input_ids))
    time.sleep(0.02)
    return {"logits": np.zeros([len(input_ids), 2], np.float32)}

  fake = served.model(
    network,
    labels=["bad", "good"],
    output_activation="softmax",
    max_seq_length=12,
    doc_stride=5,
    vocab_file=str(served.VOCABULARY),
  )
  finished = []

  async def main():
    limits = work_queue.Limits(max_batch_size=4, max_batch_delay_ms=0)
    async with served.asking(answers.Served(*fake), limits) as ask:

      async def classify(name, text):
        status, _ = await ask("m:predict", body(text))
        finished.append((name, status, len(batches)))

      long_text = asyncio.create_task(classify("long", "star " * 300))
      while not batches:
        await asyncio.sleep(0.001)
      await classify("short", "the star")
      await long_text

  asyncio.run(main())
  (first, _, few), (second, _, all_batches) = finished
  assert (first, second) == ("short", "long")
  assert {status for _, status, _ in finished} == {200}
  assert few < all_batches / 2 and all_batches > 14
