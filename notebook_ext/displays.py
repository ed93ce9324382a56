"""Where a panel stands on the page: outputs with a display id, each showing the live widget or the static table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

Bundle = Mapping[str, Any]
KEPT = 12
"""Outputs that are kept up to date; a cell that is run again leaves its old one behind."""


class Displays:
    """`live` makes the bundle with the widget, `static` the one that every front end can show."""

    def __init__(self, live: Callable[[], Bundle] | None, static: Callable[[], Bundle]) -> None:
        self._live = live
        self._static = static
        self._handles: deque[Any] = deque(maxlen=KEPT)
        self.shows_live = live is not None

    def __bool__(self) -> bool:
        return bool(self._handles)

    def show(self) -> None:
        """One output more, in the cell that runs."""
        from IPython.display import display

        shown: Any = display
        handle = shown(dict(self._bundle()), raw=True, display_id=True)
        if handle is not None:
            self._handles.append(handle)

    def update(self, *, live: bool) -> None:
        """Show the newest state everywhere, as the live widget or as the static table."""
        self.shows_live = live and self._live is not None
        for handle in self._handles:
            handle.update(dict(self._bundle()), raw=True)

    def _bundle(self) -> Bundle:
        return self._live() if self.shows_live and self._live is not None else self._static()
