"""One thread per process that ends what is overdue: a blocking read cannot limit itself against a drip of bytes.

Per-operation timeouts of the HTTP library end a stall; this ends everything else, at the instant that was set.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from shim._run.system import Clock, SystemClock

FOREVER = float("inf")
_LINGER = 5.0  # seconds between looks while there is anything to watch
_LONGEST_SLEEP = 3600.0  # seconds; the platform's limit is far off, but there is one


class Watch:
    """One thing with a limit. `at` may be moved at any time; `is_overdue` tells that `end` was called."""

    __slots__ = ("_dog", "at", "end", "is_overdue")

    def __init__(self, dog: Watchdog, at: float, end: Callable[[], None]) -> None:
        self._dog = dog
        self.at = at
        self.end = end
        self.is_overdue = False

    def move(self, at: float) -> None:
        """Set another instant; infinity stops the clock without giving the watch up."""
        self.at = at
        if at < self._dog.wakes_at:
            self._dog.wake()

    def stop(self) -> None:
        """The thing ended in time."""
        self._dog.drop(self)


class Watchdog:
    """`watch` costs a set insertion; the thread starts with the first watch and wakes for the earliest limit alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watches: set[Watch] = set()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.wakes_at = FOREVER
        self._is_quiet = True

    def watch(self, at: float, end: Callable[[], None]) -> Watch:
        """Call `end` from the watchdog's thread at the instant `at`, unless the watch is stopped or moved first."""
        watch = Watch(self, at, end)
        self._watches.add(watch)
        if at < self.wakes_at:
            self.wake()
        return watch

    def drop(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def wake(self) -> None:
        if self._thread is None:
            name = "shim-watchdog" if isinstance(self._clock, SystemClock) else "shim-watchdog of another clock"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            now = self._look()
            self._wake.wait(None if self.wakes_at == FOREVER else min(max(0.0, self.wakes_at - now), _LONGEST_SLEEP))

    def _look(self) -> float:
        """End what is overdue and set when to look again. Apart from the loop, whose locals would keep the last watch,
        and through it a client that was dropped, for as long as nothing happens."""
        now = self._clock.now()
        # Not infinity at once: calls that are quicker than their limits would each wake the thread to say so.
        self.wakes_at = now + _LINGER if self._watches or not self._is_quiet else FOREVER
        self._is_quiet = not self._watches
        for watch in list(self._watches):
            if watch.at <= now:
                watch.is_overdue = True
                watch.at = FOREVER
                self._watches.discard(watch)
                watch.end()
            elif watch.at < self.wakes_at:
                self.wakes_at = watch.at
        return now


_dogs: dict[int, Watchdog] = {}  # by the identity of the clock, which the watchdog keeps
_REAL = SystemClock()


def watchdog(clock: Clock) -> Watchdog:
    """The watchdog of a clock: the process's own for the system's, another for each clock that a test moves."""
    if isinstance(clock, SystemClock):
        clock = _REAL
    found = _dogs.get(id(clock))
    if found is None:
        found = _dogs[id(clock)] = Watchdog(clock)
    return found


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_dogs.clear)
