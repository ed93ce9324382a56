"""What tests of whole jobs share: a provider on loopback, and `embed` for both clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shim
from tests.embed.serving import Embed, Provider
from tests.support.server import Server


@pytest.fixture(params=["sync", "async"])
def embed(request: pytest.FixtureRequest, tmp_path: Path) -> Embed:
    """`client.embed` of a client made for the configuration, with a store of its own."""

    def run(given: dict[str, Any] | shim.Router, data: Any, **choices: Any) -> Any:
        choices = {"store": tmp_path / "store", "progress": False, **choices}
        if request.param == "sync":
            with shim.OpenAI(router=given) as client:
                return client.embed(data, **choices)

        async def main() -> Any:
            async with shim.AsyncOpenAI(router=given) as client:
                return await client.embed(data, **choices)

        return asyncio.run(main())

    return run


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def server(provider: Provider) -> Iterator[Server]:
    with Server(provider) as made:
        yield made
    assert made.faults == []
