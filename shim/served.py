"""What a response knows of how it came about."""

from __future__ import annotations

from typing import Any, Protocol

from shim.events import Attempt, Call


class Packed(Protocol):
    """Vectors as the router read them: `packed()` is count x dimensions little-endian float32, in input order."""

    count: int
    dimensions: int
    input_tokens: int | None
    model: str | None

    def packed(self) -> bytes: ...


MARK = "_shim_served"
_HOLDERS = ("response", "http_response", "_response", "_raw_stream", "_stream", "raw")


def attempts(response: object) -> tuple[Attempt, ...]:
    """Every attempt that was made for `response`, in order; empty when it was not routed.

    Takes what the client returned: a model, a raw response, a stream or the helpers of `.stream()`, an httpx response,
    and the exceptions of this package. For a stream it tells the attempts so far.
    """
    call = call_of(response)
    return () if call is None else call.attempts


def call_of(response: object) -> Call | None:
    """The record of the call that brought `response`, None when it was not routed."""
    known = getattr(response, "call", None)
    if isinstance(known, Call):
        return known
    served = _served(response, 0)
    return None if served is None else served.call


def packed_of(response: object) -> Packed | None:
    """The vectors of an embeddings answer as the router read them, for a call that asked for them packed."""
    served = _served(response, 0)
    return None if served is None else served.embedded


def _served(response: Any, depth: int) -> Any:
    if response is None or depth > 4:
        return None
    mark = getattr(response, "__dict__", {}).get(MARK)
    if mark is not None:
        return mark
    extensions = getattr(response, "extensions", None)
    if isinstance(extensions, dict):
        return extensions.get("shim")
    for name in _HOLDERS:
        try:
            held = getattr(response, name, None)
        except Exception:  # noqa: BLE001  a property of somebody else's class
            held = None
        found = _served(held, depth + 1) if held is not None else None
        if found is not None:
            return found
    return None
