"""The live panel: one ipywidgets widget with a small page module. Imported only where anywidget is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from notebook_ext import actions, render, session
from notebook_ext.displays import Displays
from notebook_ext.feed import GAP, Feed
from notebook_ext.watch import Watch

_HERE = Path(__file__).parent / "static"
HELLO_WITHIN = 4.0
"""Seconds of a free kernel in which a page that has loaded our module says so."""
STATIC_GAP = 0.25


class PanelWidget(anywidget.AnyWidget):
    """Shows a router live. Composes like every ipywidgets widget (`VBox`, `link`, `interactive_output`).

    `snapshot` is what it shows, as plain data. `freeze()` replaces it by its static table, so that a saved notebook
    shows the last state; `close()` ends it without a trace.
    """

    kind = "widget"
    place: str | None = None
    _esm = _HERE / "panel.js"
    _css = _HERE / "panel.css"
    snapshot = traitlets.Dict().tag(sync=True)
    beats = traitlets.Int(0).tag(sync=True)

    def __init__(self, watch: Watch, feed: Feed) -> None:
        self._watch = watch
        self._feed = feed
        self._last = watch.snapshot()
        self._was_heard = False
        self._is_over = False
        self.every = GAP
        super().__init__(snapshot=self._last.to_builtins())
        self._displays = Displays(self._live_bundle, self.static_bundle)
        self.on_msg(self._on_message)
        feed.join(self)

    @property
    def router(self) -> Any:
        """The router that it shows."""
        return self._watch.router

    @property
    def is_live(self) -> bool:
        """Whether it still follows its router."""
        return not self._is_over

    # -- what the feed asks

    def refresh(self) -> None:
        """Show the newest state."""
        if self._is_over:
            return
        self._last = self._watch.snapshot()
        if self._displays and not self._displays.shows_live:
            self._displays.update(live=False)
        self.snapshot = self._last.to_builtins()

    def beat(self) -> None:
        """A sign of life for the page."""
        if not self._is_over:
            self.beats += 1

    # -- on the page

    def _ipython_display_(self) -> None:
        session.appeared(self)
        self._displays.show()
        self._expect_hello()

    def static_bundle(self) -> Mapping[str, Any]:
        """What any front end can show, as of the last snapshot."""
        return {"text/html": render.to_html(self._last), "text/plain": render.to_text(self._last)}

    def settle(self, *, has_page: bool) -> None:
        """A cell is over. Without a page that has said a word, its output holds the static table from now on."""
        if self._displays and not self._was_heard and not has_page and not self._is_over:
            self._last = self._watch.snapshot()
            self._displays.update(live=False)

    def freeze(self) -> None:
        """The last state, as a static table, in every place where it was shown; then `close()`."""
        if self._is_over:
            return
        self._last = self._watch.snapshot()
        self._is_over = True
        self._displays.update(live=False)
        self.close()

    def close(self) -> None:
        """Leave the feed and the router; the page forgets the widget."""
        self._is_over = True
        if hasattr(self, "_feed"):  # closed also when a constructor failed
            self._feed.leave(self)
            self._watch.close()
            layout = self.layout  # a widget of its own, which ipywidgets leaves open
            if layout is not None:
                layout.close()
        super().close()

    def _live_bundle(self) -> Mapping[str, Any]:
        bundle = self._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return {**(data or {}), **self.static_bundle()}

    def _expect_hello(self) -> None:
        """A server without anywidget shows an error in place of a widget: fall back to the table that it can show.

        Counted on the kernel's own loop, so that a cell that keeps the kernel busy is not mistaken for a deaf page.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        loop.call_later(HELLO_WITHIN - 1, loop.call_later, 1.0, self._fall_back)

    def _fall_back(self) -> None:
        if not (self._was_heard or self._is_over):
            self.every = STATIC_GAP
            self._displays.update(live=False)

    def _on_message(self, _: Any, content: Any, __: Any) -> None:
        if not isinstance(content, dict):
            return
        if content.get("type") == "hello":
            self._hello()
        elif content.get("type") == "act" and not self._is_over:
            trouble = actions.carry_out(self._watch.router, content)
            self._watch.acknowledge(str(content.get("id")), trouble)

    def _hello(self) -> None:
        self._was_heard = True
        if self._displays and not self._displays.shows_live and not self._is_over:
            self.every = GAP
            self._displays.update(live=True)
