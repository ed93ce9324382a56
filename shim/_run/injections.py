"""The faults that attempts of a router are to meet now. Any thread adds and removes them; each attempt asks."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from shim._core.faults import FaultProfile, Injection
from shim._run.system import Clock


class Injections:
    """Of one router. Without any, an attempt pays for one look at an empty tuple."""

    __slots__ = ("_clock", "_lock", "active")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.active: tuple[Injection, ...] = ()

    def add(self, profiles: Iterable[FaultProfile]) -> Injection:
        """Let attempts meet these profiles from now on; what `remove` takes."""
        injection = Injection(profiles, self._clock.now())
        with self._lock:
            self.active = (*self.active, injection)
        return injection

    def remove(self, injection: Injection) -> None:
        """Let it be. Again and again does no harm."""
        with self._lock:
            self.active = tuple(one for one in self.active if one is not injection)

    def meet(self, provider: str, model: str) -> FaultProfile | None:
        """What the attempt that begins now on this route meets; the injection that was added last is asked first."""
        if not self.active:
            return None
        now = self._clock.now()
        with self._lock:
            for injection in reversed(self.active):
                profile = injection.meet(provider, model, now)
                if profile is not None:
                    return profile
        return None
