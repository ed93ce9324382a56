"""A provider in a process of its own, for clusters: `python -m tests.distributed.provider`. Ends when its input does.

It prints its base URL. `GET .../counts` tells how many requests came and how often the busiest text was answered.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.embed.serving import Provider, failing, rate_limited, resetting
from tests.support.server import Peer, Seen, Server

POISON = ("row 23", "row 888")
_LONGEST = 600.0
"""Seconds after which it ends whatever happens."""


@contextmanager
def provider(*, with_faults: bool) -> Iterator[str]:
    """Its base URL; with faults 10 % of requests get a 429, 5 % a 500, and 5 % of connections break."""
    command = [sys.executable, "-m", "tests.distributed.provider", *(["--faults"] if with_faults else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(10)


def counts(base_url: str) -> dict[str, int]:
    """What it has answered so far."""
    with urllib.request.urlopen(f"{base_url}/counts", timeout=10) as answer:
        told: dict[str, int] = json.load(answer)
    return told


def _script(served: Provider) -> Any:
    def script(request: Seen, peer: Peer) -> None:
        if request.method != "GET":
            served(request, peer)
            return
        peer.answer(200, {"requests": len(served.sizes), "most": max(served.asked.values(), default=0)})

    return script


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", action="store_true")
    given = parser.parse_args()
    faults = [rate_limited(0.1), failing(0.05), resetting(0.05)] if given.faults else []
    with Server(_script(Provider(faults=faults, poison=frozenset(POISON)))) as server:
        print(server.base_url, flush=True)
        ended = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
        ended.wait(_LONGEST)


if __name__ == "__main__":
    main()
