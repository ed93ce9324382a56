"""The only module that reads a clock, waits, or is random."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Protocol


class Clock(Protocol):
    """Time as the drivers see it. A test hands in one that it moves itself."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def wall(self) -> float:
        """Unix seconds."""

    def jitter(self) -> float:
        """A random number in [0, 1)."""

    def wait(self, seconds: float) -> None:
        """Block this thread."""

    async def async_wait(self, seconds: float) -> None:
        """Block this task."""


class SystemClock:
    """The real clock."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    jitter = staticmethod(random.random)

    def wait(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))

    async def async_wait(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
