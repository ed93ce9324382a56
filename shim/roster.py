"""The routers of this process, for what watches them all: the notebook panel, an exporter of metrics."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shim.router import Router

__all__ = ["jobs_are_shown", "routers", "unwatch_routers", "watch_routers"]

log = logging.getLogger("shim")

Watcher = Callable[["Router"], None]

jobs_are_shown = False
"""Whether something shows the progress of every dataset job already: then a job needs no bar of its own."""

_known: list[weakref.ref[Router]] = []
_watchers: tuple[Watcher, ...] = ()  # replaced, never changed in place


def routers() -> tuple[Router, ...]:
    """The routers that are still in use, oldest first."""
    return tuple(router for known in list(_known) if (router := known()) is not None)


def watch_routers(watcher: Watcher) -> None:
    """Call `watcher` with every router made from now on. What it raises is logged and never reaches the maker."""
    global _watchers
    _watchers = (*_watchers, watcher)


def unwatch_routers(watcher: Watcher) -> None:
    """Stop telling `watcher`."""
    global _watchers
    _watchers = tuple(other for other in _watchers if other != watcher)


def enter(router: Router) -> None:
    """A router was made."""
    _known[:] = [known for known in _known if known() is not None]
    _known.append(weakref.ref(router))
    for watcher in _watchers:
        try:
            watcher(router)
        except Exception:
            log.exception("a watcher of routers failed: %r", watcher)
