"""A small HTTP/1.1 server on the loopback interface that puts a handler behind real sockets."""

from __future__ import annotations

import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from shim.local.sick import Answer, Handler, Sick, failing, hanging, rate_limited, release

__all__ = ["Answer", "Handler", "LocalServer", "Sick", "failing", "hanging", "rate_limited", "serve"]

MAX_BODY = 64 * 1024 * 1024
_GOODBYE = 5.0
"""Seconds that closing waits for a thread: a safety net, since all that can block is freed before."""


class _Exchange(BaseHTTPRequestHandler):
    """One connection: reads requests, hands them to the handler, writes each answer in one piece."""

    protocol_version = "HTTP/1.1"
    server_version = "shim-local"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Listener

    def _exchange(self) -> None:
        length = self.headers.get("content-length", "0")
        if self.headers.get("transfer-encoding") or not (length.isascii() and length.isdigit()):
            self._answer(411, [], b"", keep=False)
        elif int(length) > MAX_BODY:
            self._answer(413, [], b"", keep=False)
        else:
            body = self.rfile.read(int(length))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._answer(*self.server.handler(self.command, self.path, headers, body))

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, keep: bool = True) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        if not keep:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _exchange  # noqa: N815 - the names that the base class looks up

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what happened is in the router's records."""


class _Listener(ThreadingHTTPServer):
    """Keeps account of its connections, so that closing can end those that a client holds open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512  # connections that come at once: the default of five turns some away

    def __init__(self, address: tuple[str, int], handler: Handler) -> None:
        self.handler = handler
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._guard = threading.Lock()
        super().__init__(address, _Exchange)

    def process_request(self, request: Any, client_address: Any) -> None:
        arguments = (request, client_address)
        thread = threading.Thread(target=self.process_request_thread, args=arguments, name="shim-local", daemon=True)
        with self._guard:
            self._connections[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        with self._guard:
            self._connections.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; anything else is a defect of the handler and is printed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def hang_up(self) -> None:
        with self._guard:
            connections = list(self._connections.items())
            for connection, _ in connections:
                try:
                    connection.shutdown(socket.SHUT_RD)
                except OSError:
                    continue  # the client was first
        for _, thread in connections:
            thread.join(_GOODBYE)


class LocalServer:
    """A running server. Ends with `close()` or as a context manager; a request that hangs is freed at once."""

    def __init__(self, handler: Handler, host: str = "127.0.0.1", port: int = 0) -> None:
        self._handler = handler
        self._listener = _Listener((host, port), handler)
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.05,), name="shim-local-listener", daemon=True
        )
        self._closed = False
        self._thread.start()

    @property
    def base_url(self) -> str:
        """What a client takes as `base_url`, with `/v1`."""
        host, port = self._listener.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    def close(self) -> None:
        """Stops listening, frees hanging requests, ends every connection and thread. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        release(self._handler)
        self._listener.shutdown()
        self._listener.server_close()
        self._listener.hang_up()
        self._thread.join(_GOODBYE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def serve(handler: Handler, host: str = "127.0.0.1", port: int = 0) -> LocalServer:
    """A server that already accepts connections; port 0 takes a free one. Raises `OSError` where the port is taken."""
    return LocalServer(handler, host, port)
