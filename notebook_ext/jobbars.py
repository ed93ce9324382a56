"""The bar of a dataset job, in the cell that started it: an HTML card, replaced in place, its summary at the end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from notebook_ext import jobs, render, session
from notebook_ext.displays import Displays
from notebook_ext.feed import Feed
from shim import roster
from shim.events import Event, JobProgress
from shim.roster import routers, unwatch_routers, watch_routers
from shim.router import Router

KEPT = 64
"""Jobs that are remembered as shown."""


class JobBar:
    """One job. Drawn by the feed four times a second; its last word at once."""

    every = 0.25

    def __init__(self, told: JobProgress, feed: Feed) -> None:
        self._feed = feed
        self._told = told
        self._displays = Displays(None, self.static_bundle)
        self._displays.show()
        feed.join(self)

    def hear(self, told: JobProgress) -> None:
        """Progress."""
        self._told = told
        if told.state in jobs.OVER:
            self.refresh()
            self._feed.leave(self)
        else:
            self._feed.notice()

    def refresh(self) -> None:
        """Draw it."""
        self._displays.update(live=False)

    def beat(self) -> None:
        """A card gives no signs of life."""

    def static_bundle(self) -> Mapping[str, Any]:
        """The card in HTML and in plain text."""
        view = jobs.view(self._told)
        return {"text/html": render.job_html(view), "text/plain": render.job_text(view)}


class JobBars:
    """Listens to every router of the process for jobs, from `install` to `remove`."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._guard = threading.Lock()
        self._bars: dict[str, JobBar | None] = {}

    def __call__(self, event: Event, /) -> None:
        if not isinstance(event, JobProgress):
            return
        with self._guard:
            is_new = event.job_id not in self._bars
            if is_new:
                self._bars[event.job_id] = JobBar(event, self._feed) if event.state not in jobs.OVER else None
                while len(self._bars) > KEPT:
                    del self._bars[next(iter(self._bars))]
            bar = self._bars[event.job_id]
        if bar is not None:
            bar.hear(event)
            if event.state in jobs.OVER:
                with self._guard:
                    self._bars[event.job_id] = None

    def install(self) -> None:
        """Listen, where there is a page to show something on."""
        if session.has_kernel():
            for router in routers():
                router.subscribe(self)
            watch_routers(self._listen)
            roster.jobs_are_shown = True

    def remove(self) -> None:
        """Listen no more."""
        roster.jobs_are_shown = False
        unwatch_routers(self._listen)
        for router in routers():
            router.unsubscribe(self)

    def _listen(self, router: Router) -> None:
        router.subscribe(self)
