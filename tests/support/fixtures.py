"""Fixtures: servers that end with the test, and the faces that a test runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.support.faces import FLAVOURS, Face
from tests.support.server import Script, Server

Serve = Callable[[Script], Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers; a script that failed fails the test."""
    made: list[Server] = []

    def start(script: Script) -> Server:
        made.append(Server(script))
        return made[-1]

    yield start
    for server in made:
        server.close()
    assert [fault for server in made for fault in server.faults] == []


@pytest.fixture(params=sorted(FLAVOURS))
def flavour(request: pytest.FixtureRequest) -> str:
    """The HTTP library."""
    return str(request.param)


@pytest.fixture(params=["sync", "async"])
async def face(request: pytest.FixtureRequest, flavour: str) -> AsyncIterator[Face]:
    """Sync and async clients, each over both HTTP libraries."""
    made = Face(request.param == "async", flavour)
    yield made
    await made.close()


@pytest.fixture(params=["sync", "async"])
async def plain(request: pytest.FixtureRequest) -> AsyncIterator[Face]:
    """Sync and async clients over the SDK's own HTTP client alone, where the library makes no difference."""
    made = Face(request.param == "async")
    yield made
    await made.close()
