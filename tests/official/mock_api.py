"""A loopback stand-in for the OpenAI API: any path of the installed openai package, answered with the smallest fit.

Run as a module it prints the port that it listens on and serves until it is killed.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from tests.official.mock_routes import ApiRoute, api_routes
from tests.official.mock_schema import minimal

_ASKS_FOR_STREAM = (b'"stream":true', b'"stream": true', b'name="stream"\r\n\r\ntrue')


class MockApi(BaseHTTPRequestHandler):
    """Answers one connection; the routes and the answers already made are shared by all of them."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write per answer: two small ones would meet Nagle's algorithm and a delayed ACK
    disable_nagle_algorithm = True
    routes: tuple[ApiRoute, ...] = ()
    answers: ClassVar[dict[tuple[str, str, bool], tuple[int, str, bytes]]] = {}

    def _answer(self) -> None:
        body = self._read_body()
        path = self.path.split("?")[0]
        wants_stream = any(mark in body for mark in _ASKS_FOR_STREAM)
        key = (self.command, path, wants_stream)
        if key not in self.answers:
            self.answers[key] = self._made(*key)
        status, kind, content = self.answers[key]
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names http.server looks up

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _made(self, method: str, path: str, wants_stream: bool) -> tuple[int, str, bytes]:
        route = next((route for route in self.routes if route.matches(method, path)), None)
        if route is None:
            return 404, "application/json", b'{"error": {"message": "no such path in the mock"}}'
        if wants_stream and route.event is not None:
            event = json.dumps(minimal(route.event))
            return 200, "text/event-stream", f"data: {event}\n\ndata: [DONE]\n\n".encode()
        if route.answer in (None, type(None)):
            return 204, "", b""
        if route.answer is str:
            return 200, "text/plain", b"string"
        if "Binary" in getattr(route.answer, "__name__", ""):
            return 200, "application/octet-stream", b"bytes"
        return 200, "application/json", json.dumps(minimal(route.answer)).encode()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: thousands of requests are normal here."""


def main() -> None:
    """Serve on a free loopback port until killed."""
    MockApi.routes = api_routes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), MockApi)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
