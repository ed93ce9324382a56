"""The one thread that tells panels what changed: at most ten times a second, the newest state, never a backlog."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("shim.notebook")

GAP = 0.1
"""Seconds between two pushes: ten a second are smooth, and far below what Jupyter's servers drop."""
BEAT = 5.0
"""Seconds between two signs of life, by which a page knows that its kernel is there."""


class Face(Protocol):
    """What shows something: a widget, a table. `every` is its own smallest gap in seconds."""

    every: float

    def refresh(self) -> None:
        """Show the newest state."""

    def beat(self) -> None:
        """Give a sign of life."""


class Feed:
    """Faces join and leave at any time; the thread lives while there is one. What a face raises is logged once."""

    def __init__(self, gap: float = GAP, beat: float = BEAT) -> None:
        self._gap = gap
        self._beat = beat
        self._guard = threading.Lock()
        self._faces: tuple[Face, ...] = ()
        self._waiting: dict[int, float] = {}
        self._complained: set[int] = set()
        self._news = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def notice(self) -> None:
        """Something changed. Costs next to nothing: called for every event of a router."""
        if not self._news.is_set():
            self._news.set()

    def join(self, face: Face) -> None:
        """Tell `face` from now on."""
        with self._guard:
            if face not in self._faces:
                self._faces = (*self._faces, face)
            if not self.is_running:
                self._stop = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stop,), name="notebook_ext-feed", daemon=True
                )
                self._thread.start()
        self.notice()

    def leave(self, face: Face) -> None:
        """Tell `face` no more; the thread ends with the last one."""
        with self._guard:
            self._faces = tuple(other for other in self._faces if other is not face)
            self._waiting.pop(id(face), None)
            self._complained.discard(id(face))
            ending = self._thread if not self._faces else None
            if ending is not None:
                self._thread = None
                self._stop.set()
                self._news.set()
        if ending is not None and ending is not threading.current_thread():
            ending.join(5.0)

    def close(self) -> None:
        """Every face leaves, the thread ends."""
        for face in self._faces:
            self.leave(face)

    def _run(self, stop: threading.Event) -> None:
        idle = 0.0
        while not stop.is_set():
            if self._news.wait(self._beat - idle):
                self._news.clear()
                self._tell()
                stop.wait(self._gap)
                idle += self._gap
            else:
                idle = self._beat
            if idle >= self._beat:
                idle = 0.0
                self._live()

    def _tell(self) -> None:
        late = False
        for face in self._faces:
            waited = self._waiting.get(id(face), face.every)
            if waited + 1e-6 < face.every:  # a slower face: its turn comes with one of the next rounds
                self._waiting[id(face)] = waited + self._gap
                late = True
                continue
            self._waiting[id(face)] = self._gap
            self._guarded(face, face.refresh)
        if late:
            self._news.set()

    def _live(self) -> None:
        for face in self._faces:
            self._guarded(face, face.beat)

    def _guarded(self, face: Face, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # a broken panel must not end the thread that tells the others
            if id(face) not in self._complained:
                self._complained.add(id(face))
                log.exception("a panel failed; it is told no more of its failures: %r", face)
