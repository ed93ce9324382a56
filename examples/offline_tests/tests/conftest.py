"""No test reaches a network: a socket that is to be connected is an error, unless cassettes are being recorded."""

from __future__ import annotations

import socket
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.config.getoption("--shim-record") in (None, "none"):

        def refuse(self: socket.socket, address: Any) -> None:
            raise AssertionError(f"a test wants to connect to {address}")

        monkeypatch.setattr(socket.socket, "connect", refuse)
        monkeypatch.setattr(socket.socket, "connect_ex", refuse)
