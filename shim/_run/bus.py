"""Hands events to observers. What an observer raises is logged once for each and never reaches a call."""

from __future__ import annotations

import logging
from collections.abc import Callable

from shim.events import Event, Observer

log = logging.getLogger("shim")


class Bus:
    """`observers` is replaced, never changed in place, so that `emit` needs no lock."""

    __slots__ = ("_complained", "latecomers", "observers")

    def __init__(self) -> None:
        self.observers: tuple[Observer, ...] = ()
        self.latecomers: list[Callable[[], Observer | None]] = []
        """At most one: asked with every call for an observer that may come late, until it gives one."""
        self._complained: set[int] = set()

    def subscribe(self, observer: Observer) -> None:
        self.observers = (*self.observers, observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Equality, not identity: a method looked up twice is two objects."""
        gone = [other for other in self.observers if other == observer]
        self.observers = tuple(other for other in self.observers if other != observer)
        self._complained.difference_update(map(id, gone))

    def admit(self) -> None:
        """Ask the latecomer. Taken off the list while it is asked: no second thread subscribes it as well."""
        try:
            latecomer = self.latecomers.pop()
        except IndexError:
            return
        try:
            observer = latecomer()
        except Exception:
            log.exception("an observer of shim could not be made; it is not asked for again")
            return
        if observer is None:
            self.latecomers.append(latecomer)
        else:
            self.subscribe(observer)

    def emit(self, event: Event) -> None:
        for observer in self.observers:
            try:
                observer(event)
            except Exception:
                if id(observer) not in self._complained:
                    self._complained.add(id(observer))
                    log.exception("an observer of shim failed; it is told no more of its failures: %r", observer)
