"""A web server on this machine that misbehaves as it is told to."""

import contextlib
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
  """Serves `server.files`; {path: bytes}.

  What else `server` has: `cut_after`, the bytes after which each of the first
  `cuts` answers ends; `ranges`, whether a part may be asked for; `statuses`,
  answers to give first; `tag`, the ETag; `requests`, (path, Range) so far.
  """

  def do_GET(self):
    server = self.server
    self.server.requests.append((self.path, self.headers.get("Range")))
    if server.statuses:
      self.send_error(server.statuses.pop(0))
      return
    if self.path not in server.files:
      self.send_error(404)
      return
    data, start = server.files[self.path], 0
    wanted = self.headers.get("Range")
    # Another version by now: the whole file.
    is_same = self.headers.get("If-Range", server.tag) == server.tag
    if wanted and server.ranges and is_same:
      start = int(wanted.removeprefix("bytes=").rstrip("-"))
    if start and start >= len(data):
      self.send_response(416)
      self.send_header("Content-Range", f"bytes */{len(data)}")
      self.end_headers()
      return
    self.send_response(206 if start else 200)
    self.send_header("Content-Length", str(len(data) - start))
    self.send_header("ETag", server.tag)
    self.end_headers()
    body = data[start:]
    if server.cuts > 0:
      server.cuts -= 1
      body = body[: server.cut_after]
    with contextlib.suppress(ConnectionError):
      self.wfile.write(body)
    self.close_connection = True

  def log_message(self, *_):
    """Says nothing on standard error."""


@contextlib.contextmanager
def serve(files):
  """Yields a running server for {path: bytes}; `server.url` is its address."""
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
  server.files, server.ranges, server.tag = files, True, '"1"'
  server.cuts, server.cut_after = 0, 0
  server.statuses, server.requests = [], []
  server.url = f"http://127.0.0.1:{server.server_address[1]}"
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  try:
    yield server
  finally:
    server.shutdown()
    server.server_close()
    thread.join()
