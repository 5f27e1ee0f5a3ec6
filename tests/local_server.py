"""A local web server that can cut off or refuse responses."""

import contextlib
import http.server
import threading


class Handler(http.server.BaseHTTPRequestHandler):
  """Serves `server.files`, {path: bytes}.

  Other attributes of the server: the first `cuts` responses end after
  `cut_after` bytes; `statuses` are the error codes of the first responses;
  `requests` lists the path and the Range header of every request; `redirects`
  is {path: Location}; without `has_ranges`, it always sends the whole file.
  """

  def do_GET(self):
    server, byte_range = self.server, self.headers.get("Range")
    server.requests.append((self.path, byte_range))
    if server.statuses:
      self.send_error(server.statuses.pop(0))
      return
    if self.path in server.redirects:
      self.send_response(302)
      self.send_header("Location", server.redirects[self.path])
      self.end_headers()
      return
    if self.path not in server.files:
      self.send_error(404)
      return
    byte_range = byte_range if server.has_ranges else None
    start = (
      int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range else 0
    )
    body = server.files[self.path][start:]
    if byte_range and not body:
      self.send_error(416)
      return
    self.send_response(206 if byte_range else 200)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    if server.cuts > 0:
      server.cuts -= 1
      body = body[: server.cut_after]
    with contextlib.suppress(ConnectionError):
      self.wfile.write(body)
    self.close_connection = True

  def log_message(self, *_):
    """Logs nothing; the overridden method writes to standard error."""


@contextlib.contextmanager
def serve(files):
  """Yields a running server for {path: bytes}; `server.url` is its address."""
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
  server.files, server.cuts, server.cut_after = files, 0, 0
  server.has_ranges = True
  server.statuses, server.requests, server.redirects = [], [], {}
  server.url = f"http://127.0.0.1:{server.server_address[1]}"
  thread = threading.Thread(target=server.serve_forever, daemon=True)
  thread.start()
  try:
    yield server
  finally:
    server.shutdown()
    server.server_close()
    thread.join()
