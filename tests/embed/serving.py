"""A loopback server for datasets: vectors that depend on the text alone, and faults by a seed."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support import answers
from tests.support.faces import configuration
from tests.support.server import Peer, Seen, Server

LENGTH = 8
NO_SPACE = {"space_check": False}
QUICK = {"breaker": {"cooldown": 0.05, "max_cooldown": 0.05, "failures": 5, "failure_rate": 0.9}}


def expected(text: str, salt: str = "") -> list[float]:
    """The vector that the server gives for a text."""
    return answers.vector(json.dumps(text), LENGTH, salt)


Embed = Callable[..., Any]
Fault = Callable[["Provider", Seen, Peer], bool]


@dataclass
class Provider:
    """Answers embeddings. `faults` are called first, in order; one that answers returns True."""

    faults: Sequence[Fault] = ()
    salt: str = ""
    poison: frozenset[str] = frozenset()
    length: int = LENGTH
    asked: Counter[str] = field(default_factory=Counter)
    """How often each text was answered with a vector."""
    refused: int = 0
    sizes: list[int] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Seen, peer: Peer) -> None:
        asked = request.json
        with self._lock:
            self.sizes.append(len(asked["input"]))
            self.bodies.append({name: value for name, value in asked.items() if name != "input"})
        for fault in self.faults:
            if fault(self, request, peer):
                return
        bad = self.poison.intersection(asked["input"])
        if bad:
            self.refused += 1
            peer.answer(400, answers.error("'$.input' is invalid", type="invalid_request_error"))
            return
        self.answer(request, peer)

    def answer(self, request: Seen, peer: Peer) -> None:
        """A good answer."""
        with self._lock:
            self.asked.update(request.json["input"])
        peer.answer(200, answers.embeddings(request, self.length, self.salt))

    def roll(self, share: float) -> bool:
        """True so often."""
        with self._lock:
            return self.dice.random() < share


def on_rows(fault: Fault) -> Fault:
    """The fault for rows of the test alone, not for the texts of the space check."""

    def narrowed(provider: Provider, request: Seen, peer: Peer) -> bool:
        return request.json["input"][0].startswith("row ") and fault(provider, request, peer)

    return narrowed


def rate_limited(share: float, after: str = "20") -> Fault:
    """A share of requests gets a 429 with so many milliseconds to wait."""

    def fault(provider: Provider, request: Seen, peer: Peer) -> bool:
        if not provider.roll(share):
            return False
        peer.answer(429, answers.error("slow down", "rate_limit_exceeded"), [("retry-after-ms", after)])
        return True

    return fault


def failing(share: float, status: int = 500) -> Fault:
    """A share of requests fails with a status."""

    def fault(provider: Provider, request: Seen, peer: Peer) -> bool:
        if not provider.roll(share):
            return False
        peer.answer(status, answers.error("boom"))
        return True

    return fault


def resetting(share: float) -> Fault:
    """A share of connections breaks."""

    def fault(provider: Provider, request: Seen, peer: Peer) -> bool:
        if not provider.roll(share):
            return False
        peer.reset()
        return True

    return fault


def altered(share: float, change: Callable[[list[Any]], Iterable[Any]]) -> Fault:
    """A share of answers comes with its rows changed."""

    def fault(provider: Provider, request: Seen, peer: Peer) -> bool:
        if provider.poison.intersection(request.json["input"]) or not provider.roll(share):
            return False
        answer = answers.embeddings(request, provider.length, provider.salt)
        peer.answer(200, {**answer, "data": list(change(answer["data"]))})
        return True

    return fault


def config(*servers: Server, policy: dict[str, Any] | None = None, **family: Any) -> dict[str, Any]:
    """An embedding family over the servers, all of the same priority, without the space check."""
    return configuration("embedding", *servers, policy={**NO_SPACE, **QUICK, **(policy or {})}, **family)
