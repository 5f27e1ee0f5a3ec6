"""Sends odd requests: none of them is the server's fault, so none is a 500."""

import asyncio
import json
import re

import served
from web import application, work_queue

BODY = b'{"instances": ["a"]}'
# Every request header of HTTP (RFC 9110, 9111, 9112), and common others.
HEADERS = """Accept Accept-Charset Accept-Encoding Accept-Language Authorization
Cache-Control Connection Content-Disposition Content-Encoding Content-Language
Content-Length Content-Location Content-MD5 Content-Range Content-Type Cookie
Date Expect Forwarded From HTTP2-Settings Host If-Match If-Modified-Since
If-None-Match If-Range If-Unmodified-Since Keep-Alive Last-Modified Link
Max-Forwards Origin Pragma Prefer Proxy-Authorization Proxy-Connection Range
Referer Sec-WebSocket-Key Sec-WebSocket-Version TE Trailer Transfer-Encoding
Upgrade User-Agent Via Warning X-Forwarded-For X-Forwarded-Host
X-Forwarded-Proto X-HTTP-Method-Override X-Requested-With""".split()
VALUES = [
  b"",
  b"\xff\xfe",
  b"a" * 7000,
  b"5, 5",
  b"-1",
  b"99999999999999999999",
  b'text/html; charset=\xc3\xa9; boundary="',
  b"a\x00b",
]
HOSTS = [
  b"127.0.0.1:99999999",
  b":abc",
  b"::1",
  b"xn--",
  b"xn--a.example",
  b"\xff\xfe",
  b"[::1",
  b"[x]:80",
  b"[::1]:80",
  b"a:b:c",
  b"127.0.0.1:-1",
  b"127.0.0.1: 80",
  b"user@127.0.0.1",
  b"127.0.0.1/path",
  b"%00",
  b"a b",
  b".",
  b"\xe4\xb8\xad",
  b"1.2.3.4.5.6",
  b"0x7f.1",
]
LINES = [
  b"",
  b"\r\n\r\n",
  b"GET\r\n\r\n",
  b"GET / HTTP/9.9\r\n\r\n",
  b"GET / HTTP/1.0\r\n\r\n",
  b"get / HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET http://a:b@c:99999999/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET //v1/models/m HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET /%ff%fe%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET /%zz?%zz=\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET /v1/models/%2e%2e%2f HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET /v1/models/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"TRACE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
  b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
  b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n",
  b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
  b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 9000 + b"\r\n",
]
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
BODIES = [
  CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
  CHUNKED + b"-1\r\nabc\r\n0\r\n\r\n",
  CHUNKED + b"fffffffffffffffff\r\nabc",
  CHUNKED + b"3\r\nabcdef\r\n0\r\n\r\n",
  CHUNKED + b"5\r\nab",
  CHUNKED,
  b"Content-Length: 100\r\n\r\n{",
  b"Content-Length: abc\r\n\r\n{}",
  b"Content-Length: 5, 5\r\n\r\n{}   ",
  b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
  b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
  b"Content-Length: 0\r\n\r\n",
  b"Content-Length: 2\r\n\r\n{}extra",
  b"Content-Length: 1\r\n\r\n\xff",
]
# Answers that a client gets and that are nobody's fault.
FINE = {
  100,
  200,
  400,
  401,
  403,
  404,
  405,
  408,
  411,
  413,
  414,
  417,
  431,
  499,
  504,
}
PATHS = ["v1/models/m:predict", "v1/embeddings", "embed", "rerank", "zero-shot"]
VALUES_OF_FIELDS = [
  None,
  True,
  1e400,
  -0.0,
  "",
  "\ud800",
  "a" * 200,
  [],
  [[]],
  [1],
  {},
  {"b64": 1},
]
FIELDS = """instances inputs signature_name model input encoding_format
dimensions user normalize truncate query texts raw_scores return_text documents
top_n return_documents parameters x""".split()


def posted(headers, path=b"v1/models/m:predict"):
  return b"POST /" + path + b" HTTP/1.1\r\n" + headers


def odd_requests():
  """Yields bytes to send."""
  for name in HEADERS:
    for value in VALUES:
      lines = name.encode() + b": " + value + b"\r\n"
      if name != "Host":
        lines += b"Host: localhost\r\n"
      if name not in ("Content-Length", "Transfer-Encoding"):
        lines += b"Content-Length: %d\r\n" % len(BODY)
      yield posted(lines + b"\r\n" + BODY)
  for host in HOSTS:
    for path in (b"/", b"/healthz", b"/v1/models/m"):
      yield b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
  yield from LINES
  for body in BODIES:
    yield posted(b"Host: localhost\r\n" + body)


async def send(port, data):
  """Sends bytes; returns all that the server sends until it closes."""
  reader, writer = await asyncio.open_connection("127.0.0.1", port)
  try:
    writer.write(data)
    received = await asyncio.wait_for(reader.read(), 60)
  except ConnectionError:
    received = b""
  writer.close()
  return received


def refusals_in(data, received):
  """Yields the sentences of refusals; checks that there is no fault."""
  for answer in re.split(rb"HTTP/1\.[01] ", received)[1:]:
    status = int(answer[:3])
    assert status in FINE, (data[:300], answer)
    if status >= 400 and not data.startswith(b"HEAD"):
      head, _, body = answer.partition(b"\r\n\r\n")
      assert b"application/json" in head.lower(), (data[:300], answer)
      yield json.loads(body)["error"]


def test_odd_requests_are_refused_in_json_and_never_a_fault(caplog):
  model = served.model(lambda rows: [{"score": 1.0}] * len(rows))
  refused = []

  async def main():
    limits = work_queue.Limits(max_body_bytes=10**6, timeout_s=0.5)
    site = served.site({"m": model}, limits, "localhost", "127.0.0.1", "::1")
    async with served.listening(site, keepalive=0.3) as port:
      requests = list(odd_requests())
      assert len(requests) > 450
      for start in range(0, len(requests), 150):
        part = requests[start : start + 150]
        answers = await asyncio.gather(*(send(port, data) for data in part))
        for data, received in zip(part, answers):
          refused.extend(refusals_in(data, received))
      # The server goes on as if nothing had happened.
      answer = await send(
        port, posted(b"Host: localhost\r\nContent-Length: 20\r\n\r\n" + BODY)
      )
      assert b'{"predictions": [1.0]}' in answer
      text = await send(port, b"GET /metrics HTTP/1.0\r\nHost: ::1\r\n\r\n")
      assert b'status="5' not in text

  asyncio.run(main())
  assert len(refused) > 100
  assert not any("\n" in line or len(line) > 400 for line in refused)
  assert len(caplog.records) <= 20 and "Traceback" not in caplog.text
  assert not any("\n" in line for line in caplog.messages)


def test_odd_values_of_every_field_are_refused():
  model = served.model(lambda rows: [{"embedding": [1.0]}] * len(rows))
  models = {
    "m": model,
    "e": served.model(
      lambda rows: [{"embedding": [1.0]}] * len(rows), "embedding"
    ),
  }

  async def main():
    count = 0
    async with served.asking(models) as ask:
      for path in PATHS:
        for name in FIELDS:
          for value in VALUES_OF_FIELDS:
            body = json.dumps({"inputs": "a", "input": "a", name: value})
            status, answer = await ask(f"/{path}", body.encode())
            assert status in FINE, (path, body, answer)
            count += 1
    assert count > 1000

  asyncio.run(main())


def test_clients_that_leave_are_499_in_one_line(caplog):
  model = served.model(lambda rows: [{"score": 1.0}] * len(rows))

  async def main():
    site = served.site({"m": model}, work_queue.Limits())
    async with served.listening(site) as port:
      for start in (b"Content-Length: 100\r\n\r\n{", CHUNKED + b"5\r\nab"):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(posted(b"Host: localhost\r\n" + start))
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.transport.abort()
        await asyncio.sleep(0.1)
    assert site._metrics._statuses == {499: 2}

  asyncio.run(main())
  lines = [line for line in caplog.messages if "499" in line]
  assert len(lines) == 2 == len(caplog.records)
  assert re.fullmatch(r"POST '.*' from .*: 499 'the client left'", lines[0])


def test_a_fault_is_logged_with_its_traceback_up_to_the_limit(caplog):
  def fail(rows):
    raise KeyError("secret")

  async def main():
    async with served.asking(served.model(fail)) as ask:
      for _ in range(12):
        status, answer = await ask("m:predict", BODY)
        assert status == 500 and "secret" not in answer["error"]
      assert (await ask("/healthz"))[0] == 200

  asyncio.run(main())
  assert len(caplog.records) == 10
  assert caplog.text.count("KeyError: 'secret'") >= 10


def test_a_network_that_hangs_is_seen_at_healthz():
  model = served.model(lambda rows: [{"score": 1.0}] * len(rows))

  async def main():
    site = served.site({"m": model, "n": model}, work_queue.Limits())
    hosted = site.hosted["n"]
    hosted.network._batch_began = 1.0
    async with served.listening(site) as port:
      answer = await send(port, b"GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n")
      hosted.network._batch_began = None
      later = await send(port, b"GET /healthz HTTP/1.0\r\nHost: x\r\n\r\n")
    assert (
      b" 503 " in answer.split(b"\r\n")[0] and b'"n": "the network' in answer
    )
    assert b" 200 " in later.split(b"\r\n")[0]

  asyncio.run(main())
  assert application.BUSY
