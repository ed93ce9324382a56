"""A scripted HTTP/1.1 server on loopback that keeps the raw bytes of every request and knows its open connections.

A script is a function of what was asked and of the connection: it may send any bytes, wait, and break off. `serve` in
`shim.testing` takes words instead (`shim.testing.answers`).
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

PATIENCE = 4.0
"""Seconds that a wait of a test takes at most: it never passes in a test that is green."""


@dataclass(slots=True)
class Seen:
    """One request as it came over the wire."""

    raw_head: bytes
    body: bytes
    connection: int

    @property
    def raw(self) -> bytes:
        """The whole request."""
        return self.raw_head + b"\r\n\r\n" + self.body

    @property
    def method(self) -> str:
        """`POST`."""
        return self.raw_head.split(b" ", 1)[0].decode()

    @property
    def path(self) -> str:
        """The path with its query, as it was sent."""
        return self.raw_head.split(b" ", 2)[1].decode()

    @property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name; of a repeated one the last."""
        pairs = (line.split(": ", 1) for line in self.raw_head.decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value for name, value in pairs}

    @property
    def json(self) -> Any:
        """The body as JSON. Raises `ValueError` where it is none."""
        return json.loads(self.body)


@dataclass(slots=True)
class Peer:
    """The server's end of one connection, for the script of an answer."""

    connection: socket.socket
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when the client has closed its end."""
    stays: bool = True

    def raw(self, data: bytes) -> None:
        """Send these bytes."""
        self.connection.sendall(data)

    def answer(self, status: int, body: object = b"", headers: Iterable[tuple[str, str]] = ()) -> None:
        """A whole answer; anything but bytes is sent as JSON."""
        is_raw = isinstance(body, bytes)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = list(headers)
        if not is_raw and not any(name.lower() == "content-type" for name, _ in given):
            given.append(("content-type", "application/json"))
        self.raw(head(status, [*given, ("content-length", str(len(content)))]) + content)

    def begin(self, status: int = 200, headers: Iterable[tuple[str, str]] = ()) -> None:
        """The head of an event stream in chunks."""
        given = list(headers) or [("content-type", "text/event-stream")]
        self.raw(head(status, [*given, ("transfer-encoding", "chunked")]))

    def chunk(self, data: bytes) -> None:
        """One chunk of the body that `begin` announced."""
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """The end of that body."""
        self.raw(b"0\r\n\r\n")

    def stream(self, parts: Iterable[bytes], headers: Iterable[tuple[str, str]] = ()) -> None:
        """A whole event stream, a chunk for each part."""
        self.begin(headers=headers)
        for part in parts:
            self.chunk(part)
        self.end()

    def drip(self, data: bytes, every: float) -> None:
        """One byte each `every` seconds until the client goes away."""
        for index in range(len(data)):
            if self.is_gone(every):
                return
            self.raw(data[index : index + 1])

    def is_gone(self, within: float) -> bool:
        """Whether the client closes its end within so many seconds. What it sends meanwhile is thrown away."""
        self.connection.settimeout(within)
        try:
            is_gone = self.connection.recv(65536) == b""
        except TimeoutError:
            return False
        except OSError:
            is_gone = True
        finally:
            self.connection.settimeout(None)
        if is_gone:
            self.gone.set()
        return is_gone

    def hang(self, seconds: float = PATIENCE * 3) -> None:
        """Say nothing until the client goes away, `seconds` at most, and close."""
        self.stays = False
        self.is_gone(seconds)

    def reset(self) -> None:
        """Break the connection without a goodbye."""
        self.stays = False
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def close(self) -> None:
        """Close the connection in the middle of whatever it was."""
        self.stays = False
        self.connection.close()


Script = Callable[[Seen, Peer], None]


def head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


class Server:
    """Runs `script` for each request. `seen` has the requests in order, `open` the number of connections now."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self.opened = 0
        self.faults: list[BaseException] = []
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="shim-testing", daemon=True)
        self._thread.start()

    @property
    def base_url(self) -> str:
        """What a client takes as `base_url`, with `/v1`."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def open(self) -> int:
        """Connections that neither side has closed."""
        with self._changed:
            return len(self._open)

    def wait_until(self, holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Wait for something that a connection brings about."""
        with self._changed:
            return self._changed.wait_for(holds, seconds)

    def wait_for_closed(self, most: int = 0, seconds: float = PATIENCE) -> bool:
        """Wait until no more than `most` connections are open."""
        return self.wait_until(lambda: len(self._open) <= most, seconds)

    def wait_for_requests(self, count: int) -> bool:
        """Wait until so many requests have come."""
        return self.wait_until(lambda: len(self.seen) >= count)

    def close(self) -> None:
        """Stop listening and end every connection."""
        with contextlib.suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone leaves it open while a thread accepts on it
        self._listener.close()
        self._thread.join(PATIENCE)
        with self._changed:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # gone already

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- inside

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.opened += 1
                number = self.opened
                self._open.add(connection)
            threading.Thread(
                target=self._serve, args=(connection, number), name="shim-testing-peer", daemon=True
            ).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        peer = Peer(connection)
        try:
            while peer.stays and (request := _read(connection, number)) is not None:
                with self._changed:
                    self.seen.append(request)
                    self._changed.notify_all()
                self.script(request, peer)
        except OSError:
            peer.gone.set()  # the client went away while it was answered
        except BaseException as error:  # noqa: BLE001  a defect of the script: the test looks at it
            self.faults.append(error)
        finally:
            connection.close()
            with self._changed:
                self._open.discard(connection)
                self._changed.notify_all()


def _read(connection: socket.socket, number: int) -> Seen | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    top, _, body = data.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in top.lower():
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65536)
        return Seen(top, body, number)
    length = 0
    for line in top.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        more = connection.recv(1 << 20)
        if not more:
            return None
        body += more
    return Seen(top, body, number)
