"""The extension as it is loaded in this process: its feed, its panels, its hooks in IPython, and their removal."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from notebook_ext.feed import Feed
from notebook_ext.watch import Watch
from shim.roster import routers
from shim.router import Router


class Panel(Protocol):
    """What all three kinds of panel can do."""

    place: str | None
    """The cell that showed it last, where the page tells."""

    kind: str
    """`widget`, `table` or `text`."""

    @property
    def router(self) -> Any:
        """The router that it shows."""

    @property
    def is_live(self) -> bool:
        """Whether it still follows its router."""

    def refresh(self) -> None:
        """Show the newest state."""

    def settle(self, *, has_page: bool) -> None:
        """A cell is over."""

    def freeze(self) -> None:
        """Replace it by its static table."""

    def close(self) -> None:
        """End it."""


feed = Feed()
_panels: list[weakref.ref[Any]] = []


def panels() -> list[Panel]:
    """The panels that are live."""
    return [panel for known in _panels if (panel := known()) is not None and panel.is_live]


def router_of(target: object = None) -> Router:
    """The router that is meant: of a client, itself, or without a target the newest one that has a configuration.

    Raises ValueError when there is none, TypeError for anything else.
    """
    if target is None:
        known = [router for router in routers() if router.config.families]
        if not known:
            raise ValueError(
                "no router yet: make a client first, as `client = shim.OpenAI(router=...)`, or write a shim.toml"
            )
        return known[-1]
    if isinstance(target, Router):
        return target
    router = getattr(target, "router", None)
    if isinstance(router, Router):
        return router
    if hasattr(target, "router"):
        raise ValueError(
            f"this {type(target).__name__} has no router: nothing is configured, every call passes through"
        )
    raise TypeError(f"a client or a router is needed, not {type(target).__name__}")


def panel_for(target: object = None, *, mode: str = "auto") -> Any:
    """The panel of a router or client: the one that is live, else a new one. `mode`: `widget`, `table`, `text`, or
    `auto` for the best that works here. A cell that is run again shows the same panel again."""
    router = router_of(target)
    kind = best_mode() if mode == "auto" else mode
    if kind not in ("widget", "table", "text"):
        raise ValueError(f"mode must be auto, widget, table or text, is {mode!r}")
    live = next((panel for panel in panels() if panel.router is router and panel.kind == kind), None)
    return live if live is not None else _new_panel(router, kind)


def _new_panel(router: Router, kind: str) -> Any:
    watch = Watch(router, feed.notice)
    panel: Any
    if kind == "widget":
        from notebook_ext.widget import PanelWidget

        panel = PanelWidget(watch, feed)
    else:
        from notebook_ext.tables import TablePanel, TextPanel

        panel = (TablePanel if kind == "table" else TextPanel)(watch, feed)
    _panels[:] = [known for known in _panels if known() is not None]
    _panels.append(weakref.ref(panel))
    return panel


def appeared(panel: Panel) -> None:
    """A panel is shown in the cell that runs. One that an earlier run of this cell showed has nobody who sees it."""
    place = cell_of(current_shell())
    if place is None:
        return
    for other in panels():
        if other is not panel and other.place == place:
            other.close()
    panel.place = place


def best_mode() -> str:
    """`text` in a terminal and outside IPython, `table` where anywidget is missing, else `widget`."""
    if not has_kernel():
        return "text"
    try:
        import anywidget  # noqa: F401
    except ImportError:
        return "table"
    return "widget"


def has_kernel() -> bool:
    """Whether this is a notebook's kernel rather than a terminal or a plain Python."""
    shell = current_shell()
    return getattr(shell, "kernel", None) is not None


def current_shell() -> Any:
    """IPython's shell, None outside of it. IPython is not imported for that."""
    import sys

    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def cell_of(shell: Any) -> str | None:
    """The cell that runs, as a page that shows cells names it in its request (JupyterLab, Notebook, VS Code). None from
    nbclient, papermill and consoles, which do not."""
    kernel = getattr(shell, "kernel", None)
    try:
        parent = kernel.get_parent("shell") if kernel is not None else {}
    except Exception:  # noqa: BLE001  another kernel than ipykernel: nothing is known
        return None
    told = (parent.get("metadata") or {}).get("cellId")
    return None if told is None else str(told)


def after_cell(*_: object) -> None:
    """A cell is over: panels whose page is silent show their table."""
    shell = current_shell()
    page = cell_of(shell) is not None
    for panel in panels():
        panel.settle(has_page=page)


def close_all() -> None:
    """Every panel becomes its static table, the feed's thread ends."""
    for panel in panels():
        panel.freeze()
    _panels.clear()
    feed.close()
