"""How routers, calls, plans and exhausted errors look as the last line of a cell, while the extension is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from notebook_ext import views
from notebook_ext.views import View

_Maker = Callable[[Any], View]


def _of_router(router: Any) -> View:
    from notebook_ext import render
    from notebook_ext.watch import Watch

    watch = Watch(router, lambda: None)
    watch.close()
    snapshot = watch.snapshot()
    return View(f"{router!r}\n{render.to_text(snapshot)}", render.to_html(snapshot))


_TYPES: Mapping[tuple[str, str], _Maker] = {
    ("shim.router", "Router"): _of_router,
    ("shim.events", "Call"): views.of_call,
    ("shim._run.inspection", "Explanation"): views.of_explanation,
    ("shim.errors", "AllProvidersFailedError"): views.of_error,
}


def install(shell: Any) -> None:
    """By name: nothing is imported for it."""
    html, plain = _formatters(shell)
    for (module, name), maker in _TYPES.items():
        html.for_type_by_name(module, name, _html(maker))
        plain.for_type_by_name(module, name, _plain(maker))


def remove(shell: Any) -> None:
    """As if it had never been."""
    for formatter in _formatters(shell):
        for place in _TYPES:
            formatter.deferred_printers.pop(place, None)
            for known in [known for known in formatter.type_printers if (known.__module__, known.__name__) == place]:
                formatter.type_printers.pop(known)


def _formatters(shell: Any) -> tuple[Any, Any]:
    known = shell.display_formatter.formatters
    return known["text/html"], known["text/plain"]


def _html(maker: _Maker) -> Callable[[Any], str]:
    return lambda shown: maker(shown).html


def _plain(maker: _Maker) -> Callable[[Any, Any, bool], None]:
    def show(shown: Any, printer: Any, cycle: bool) -> None:
        printer.text(maker(shown).plain)

    return show
