"""Listens to one router: events go into a bounded box as they come, and are read when a panel asks."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from notebook_ext import words
from notebook_ext.fold import Fold
from notebook_ext.model import Snapshot
from notebook_ext.snapshot import Sources, make
from shim.events import Event
from shim.router import RehearsalStatus, Router, SpaceStatus

BOX = 20_000
"""Events that may wait to be read; more than a second of the fastest traffic. The oldest are dropped."""
KEPT_ACKS = 40


class Watch:
    """The router's observer. On the way of a call it costs one append; everything else is done by who reads.

    `on_news` is called with each event's arrival, in the thread of the call, and must return at once.
    """

    def __init__(self, router: Router, on_news: Callable[[], None]) -> None:
        self.router = router
        self._on_news = on_news
        self._box: deque[Event] = deque(maxlen=BOX)
        self._fold = Fold()
        self._guard = threading.Lock()
        self._acks: deque[tuple[str, str]] = deque(maxlen=KEPT_ACKS)
        self._spaces: Sequence[SpaceStatus] = ()
        self._spaces_as_of = -1
        self._seq = 0
        self._is_closed = False
        self._fold.seed(router.calls)
        router.subscribe(self)

    def __call__(self, event: Event, /) -> None:
        self._box.append(event)
        self._on_news()

    def close(self) -> None:
        """Stop listening. What was heard stays readable."""
        if not self._is_closed:
            self._is_closed = True
            self.router.unsubscribe(self)

    def acknowledge(self, request: str, trouble: str = "") -> None:
        """A button's request was carried out, or why not; the next snapshot says so."""
        with self._guard:
            self._acks.append((request, trouble))
        self._on_news()

    def snapshot(self) -> Snapshot:
        """The newest state. May be asked by any thread."""
        with self._guard:
            self._read()
            self._seq += 1
            status = self.router.status()
            sources = Sources(
                config=self.router.config,
                status=status,
                spaces=self._known_spaces(),
                rehearsals={one.subject: _rehearsal(one) for one in status.rehearsals},
                acks=tuple(self._acks),
                seq=self._seq,
            )
            return make(sources, self._fold)

    def _read(self) -> None:
        box, take = self._box, self._fold.take
        while box:
            take(box.popleft())

    def _known_spaces(self) -> Sequence[SpaceStatus]:
        """Read from disk, so only when a probe has changed them."""
        if self._spaces_as_of != self._fold.space_checks:
            self._spaces_as_of = self._fold.space_checks
            self._spaces = self.router.spaces()
        return self._spaces


def _rehearsal(one: RehearsalStatus) -> str:
    """`HTTP 429 for 2 more attempts, all as before at 14:03:22`."""
    if one.left is None:
        more = "for every attempt"
    else:
        more = f"for {words.plural(one.left, 'more attempt')}" if one.left else "met as often as asked"
    until = "" if one.ends_at is None else f", all as before at {words.clock(one.ends_at)}"
    return f"{words.clean(one.what)} {more}{until}"
