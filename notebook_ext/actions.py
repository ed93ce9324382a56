"""What the buttons of a panel ask for: checked, carried out on the router, answered with "" or with what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from notebook_ext import rehearsals, words
from shim.router import Router

Request = Mapping[str, object]

_ACTIONS: Mapping[str, Callable[[Router, Request], object]] = {
    "reset": lambda router, request: router.reset(_text(request, "name")),
    "off": lambda router, request: router.disable(_text(request, "name")),
    "on": lambda router, request: router.enable(_text(request, "name")),
    "pin": lambda router, request: router.pin(_text(request, "family"), _text(request, "name")),
    "unpin": lambda router, request: router.unpin(_text(request, "family")),
    "rehearse": lambda router, request: rehearsals.begin(router, _text(request, "name"), _text(request, "fault")),
    "end rehearsal": lambda router, _: rehearsals.end(router),
}


def carry_out(router: Router, request: Request) -> str:
    """Do what a page asks. Returns "" when it is done, else what went wrong; never raises for what a page sent."""
    action = request.get("action")
    does = _ACTIONS.get(action) if isinstance(action, str) else None
    if does is None:
        return words.clean(f"no action {action!r}; known: {', '.join(_ACTIONS)}")
    try:
        does(router, request)
    except ValueError as wrong:
        return words.clean(wrong)
    return ""


def _text(request: Request, name: str) -> str:
    value = request.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, is {type(value).__name__}")
    return value
