"""How the cassettes of this folder are read and were recorded: `python -m tests.http.recorded` makes them anew.

The answers come from the local model that ships in a package, behind a real socket on loopback. The failure in the
cassette whose name says `synthetic` was made by a handler that is ill on purpose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shim
from shim.local.provider import LocalProvider
from shim.local.server import Handler, LocalServer, rate_limited
from shim.testing import use_cassette
from tests.support.faces import MODEL, configuration

FOLDER = Path(__file__).with_name("cassettes")
LOCAL = FOLDER / "local-embeddings.yaml"
SYNTHETIC = FOLDER / "synthetic-rate-limit-then-local.yaml"
TEXTS = ["a bird in the hand", "two in the bush"]
LENGTH = 256
NAMES = ("http://a.invalid", "http://b.invalid")


def tape(path: Path, *base_urls: str, **settings: Any) -> use_cassette:
    """The context in which requests to these base URLs (of providers a, b, …) are answered from a cassette."""
    return use_cassette(path, hosts=dict(zip(base_urls, NAMES, strict=False)), **settings)


def config(*base_urls: str) -> dict[str, Any]:
    """An embedding family over the servers, with the local model's name on every route."""
    made = configuration("embedding", *base_urls, dimensions=LENGTH)
    made["families"]["fam"]["routes"] = [{"provider": name, "model": "wordllama-256"} for name in made["providers"]]
    return made


def record() -> None:
    """Ask real servers and keep what they say."""
    local = LocalProvider().handle_http
    recorded = {"server": f"shim.local {shim.__version__}"}
    synthetic = {"source": "synthetic", "about": "The 429 was made on purpose; the local model gave the other one."}
    tapes: list[tuple[Path, list[Handler], dict[str, str]]] = [
        (LOCAL, [local], recorded),
        (SYNTHETIC, [rate_limited(local, times=1, retry_after=7), local], synthetic),
    ]
    for path, handlers, about in tapes:
        servers = [LocalServer(handler) for handler in handlers]
        urls = [server.base_url for server in servers]
        path.unlink(missing_ok=True)
        with tape(path, *urls, record="all", about=about), shim.OpenAI(router=config(*urls)) as client:
            client.embeddings.create(model=MODEL, input=TEXTS)
        for server in servers:
            server.close()


if __name__ == "__main__":
    record()
