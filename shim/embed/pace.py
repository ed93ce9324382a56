"""Keeps requests apart: so many a second to each route, from one caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from shim._run.system import Clock
from shim.embed.port import Post


class Pace:
    """Spaces the requests to each route by `interval()` seconds, whatever thread makes them."""

    def __init__(self, post: Post, interval: Callable[[], float], clock: Clock) -> None:
        self._post, self._interval, self._clock = post, interval, clock
        self._next: dict[str, float] = {}
        self._guard = threading.Lock()

    def __call__(self, body: Mapping[str, object], headers: Mapping[str, str]) -> Any:
        route = headers["x-shim-route"]
        with self._guard:
            now = self._clock.now()
            start = max(now, self._next.get(route, now))
            self._next[route] = start + self._interval()
        if start > now:
            self._clock.wait(start - now)
        return self._post(body, headers)
