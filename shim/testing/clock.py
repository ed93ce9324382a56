"""A clock that moves only when it is told to, or when something waits on it."""

from __future__ import annotations

import asyncio
import threading


class FakeClock:
    """For `Router(config, clock=FakeClock())`: breakers, cooldowns and waits then take no time at all.

    `now` and `wall` begin at `at`, seconds. Waiting advances them at once. May be shared by threads.
    """

    def __init__(self, at: float = 1_000_000.0) -> None:
        self._at = at
        self._lock = threading.Lock()
        self.waits: list[float] = []
        """Every wait so far, in seconds, in order."""

    def now(self) -> float:
        """Seconds that never go back."""
        return self._at

    def wall(self) -> float:
        """The same, read as unix seconds."""
        return self._at

    def jitter(self) -> float:
        """Always a half: backoffs are the same in each run."""
        return 0.5

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises `ValueError` for a negative figure."""
        if seconds < 0:
            raise ValueError(f"seconds: time does not go back, got {seconds!r}")
        with self._lock:
            self._at += seconds

    def wait(self, seconds: float) -> None:
        """Pass so many seconds at once."""
        self._note(seconds)

    async def async_wait(self, seconds: float) -> None:
        """As `wait`; other tasks get a turn."""
        self._note(seconds)
        await asyncio.sleep(0)

    def _note(self, seconds: float) -> None:
        passed = max(0.0, seconds)
        with self._lock:
            self._at += passed
            self.waits.append(passed)
