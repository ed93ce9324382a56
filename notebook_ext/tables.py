"""The panel where no widget can be: a static table that is replaced in place, or plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from notebook_ext import render, session
from notebook_ext.displays import Displays
from notebook_ext.feed import Feed
from notebook_ext.watch import Watch

EVERY = 0.25
"""Seconds between two tables: each is sent whole and drawn anew."""


class TablePanel:
    """Shows a router as a table in HTML, four times a second at most. The same members as the live widget has."""

    every = EVERY
    kind = "table"
    place: str | None = None

    def __init__(self, watch: Watch, feed: Feed) -> None:
        self._watch = watch
        self._feed = feed
        self._last = watch.snapshot()
        self._displays = Displays(None, self.static_bundle)
        self._is_over = False

    @property
    def router(self) -> Any:
        """The router that it shows."""
        return self._watch.router

    @property
    def is_live(self) -> bool:
        """Whether it still follows its router."""
        return not self._is_over

    def refresh(self) -> None:
        """Show the newest state."""
        if not self._is_over:
            self._last = self._watch.snapshot()
            self._displays.update(live=False)

    def beat(self) -> None:
        """A table has no page that waits for signs of life."""

    def settle(self, *, has_page: bool) -> None:
        """A cell is over: what it did is shown before the next one begins."""
        self.refresh()

    def freeze(self) -> None:
        """The last state, for good."""
        if not self._is_over:
            self.refresh()
            self.close()

    def close(self) -> None:
        """Leave the feed and the router; what stands on the page stays."""
        self._is_over = True
        self._feed.leave(self)
        self._watch.close()

    def static_bundle(self) -> Mapping[str, Any]:
        """The table and the same in plain text, as of the last refresh."""
        return {"text/html": render.to_html(self._last), "text/plain": render.to_text(self._last)}

    def _ipython_display_(self) -> None:
        session.appeared(self)
        self._displays.show()
        self._feed.join(self)

    def __repr__(self) -> str:
        return render.to_text(self._last)


class TextPanel(TablePanel):
    """For a terminal: the state whenever it is looked at; nothing moves by itself."""

    kind = "text"

    def _ipython_display_(self) -> None:
        print(self)

    def __repr__(self) -> str:
        if not self._is_over:
            self._last = self._watch.snapshot()
        return super().__repr__()
