"""Shim in a notebook: a live panel, magics, and async code that the stop button stops.

%load_ext notebook_ext
%shim panel
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["load_ipython_extension", "panel", "run", "unload_ipython_extension"]

T = TypeVar("T")


def panel(target: object = None, *, mode: str = "auto") -> Any:
    """A live panel of a client's providers, or of a router's; without a `target` of the newest router.

    In a notebook an ipywidgets widget: show it as the last line of a cell, or compose it. Where anywidget is missing, a
    table that is replaced in place; in a terminal, text. `mode` asks for one of them (`widget`, `table`, `text`).
    `.freeze()` leaves a static table in its place, `.close()` ends it. Raises ValueError when there is no router.
    """
    from notebook_ext import session

    return session.panel_for(target, mode=mode)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, run on a background loop: for cells that cannot await, and code that nests.

    Prints appear in this cell, what it raises is raised here, the stop button cancels it.
    """
    from notebook_ext import loop

    return loop.run(coroutine)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext notebook_ext`."""
    from notebook_ext import extension

    extension.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext notebook_ext`."""
    from notebook_ext import extension

    extension.unload(shell)
