"""How the cassettes of this folder are read and were recorded: `python -m tests.http.recorded` makes them anew.

The answers come from the local model that ships in a package, behind a real socket on loopback. The failure in the
cassette whose name says `synthetic` was made by a handler that is ill on purpose.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import vcr  # type: ignore[import-untyped]

import shim
from shim.local.provider import LocalProvider
from shim.local.server import Handler, LocalServer, rate_limited
from tests.support.faces import MODEL, configuration

FOLDER = Path(__file__).with_name("cassettes")
LOCAL = FOLDER / "local-embeddings.yaml"
SYNTHETIC = FOLDER / "synthetic-rate-limit-then-local.yaml"
TEXTS = ["a bird in the hand", "two in the bush"]
LENGTH = 256
_FILTERED = ("authorization", "api-key", "cookie", "host", "user-agent")
_PORTS: dict[str, str] = {}


def _normal(request: Any) -> Any:
    """The port of a server that is gone says nothing; the route's place in the configuration does."""
    request.uri = re.sub(r"127\.0\.0\.1:\d+", lambda found: _PORTS.get(found.group(0), found.group(0)), request.uri)
    return request


def tape(path: Path, *base_urls: str, mode: str = "none") -> Any:
    """The context in which requests to these base URLs (of providers a, b, …) are answered from a cassette."""
    _PORTS.clear()
    for name, url in zip("ab", base_urls, strict=False):
        _PORTS[url.split("/")[2]] = f"{name}.invalid"
    recorder = vcr.VCR(
        record_mode=mode,
        filter_headers=list(_FILTERED),
        before_record_request=_normal,
        match_on=("method", "uri", "body"),
        decode_compressed_response=True,
    )
    return recorder.use_cassette(str(path))


def config(*base_urls: str) -> dict[str, Any]:
    """An embedding family over the servers, with the local model's name on every route."""
    made = configuration("embedding", *base_urls, dimensions=LENGTH)
    made["families"]["fam"]["routes"] = [{"provider": name, "model": "wordllama-256"} for name in made["providers"]]
    return made


def record() -> None:
    """Ask real servers and keep what they say."""
    tapes: list[tuple[Path, list[Handler]]] = [
        (LOCAL, [LocalProvider().handle_http]),
        (SYNTHETIC, [rate_limited(LocalProvider().handle_http, times=1, retry_after=7), LocalProvider().handle_http]),
    ]
    for path, handlers in tapes:
        path.unlink(missing_ok=True)
        servers = [LocalServer(handler) for handler in handlers]
        urls = [server.base_url for server in servers]
        with tape(path, *urls, mode="once"), shim.OpenAI(router=config(*urls)) as client:
            client.embeddings.create(model=MODEL, input=TEXTS)
        for server in servers:
            server.close()


if __name__ == "__main__":
    record()
