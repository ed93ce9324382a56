"""Hands events to observers. What an observer raises is logged once for each and never reaches a call."""

from __future__ import annotations

import logging

from shim.events import Event, Observer

log = logging.getLogger("shim")


class Bus:
    """`observers` is replaced, never changed in place, so that `emit` needs no lock."""

    __slots__ = ("_complained", "observers")

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self._complained: set[int] = set()

    def subscribe(self, observer: Observer) -> None:
        self.observers = (*self.observers, observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Equality, not identity: a method looked up twice is two objects."""
        gone = [other for other in self.observers if other == observer]
        self.observers = tuple(other for other in self.observers if other != observer)
        self._complained.difference_update(map(id, gone))

    def emit(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:
                if id(observer) not in self._complained:
                    self._complained.add(id(observer))
                    log.exception("an observer of shim failed; it is told no more of its failures: %r", observer)
