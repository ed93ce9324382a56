"""What every test here gets: a provider of its own, and no worker left over from the test before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.embed.distributed import BatchEmbedder
from shim.embed.worker import dismiss
from tests.embed.serving import LENGTH, Provider, config
from tests.support.server import Server

Made = Callable[..., BatchEmbedder]


@pytest.fixture(autouse=True)
def _no_workers() -> Iterator[None]:
    yield
    dismiss()


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def server(provider: Provider) -> Iterator[Server]:
    with Server(provider) as made:
        yield made
    assert made.faults == []


@pytest.fixture
def embedder(server: Server, tmp_path: Path) -> Made:
    """Makes embedders over the server, with a store of their own."""

    def make(**choices: Any) -> BatchEmbedder:
        given = choices.pop("router", None) or config(server, dimensions=LENGTH)
        return BatchEmbedder(given, **{"column": "text", "store": tmp_path / "store", **choices})

    return make
