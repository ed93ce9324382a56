"""The rehearsals that a button or a magic starts: named faults, three times, and back to normal after a minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shim.router import Router

TIMES = 3
SECONDS = 60.0
FAULTS: Mapping[str, Mapping[str, Any]] = {
    "429": {"status": 429, "retry_after": 20.0},
    "500": {"status": 500},
    "401": {"status": 401},
    "timeout": {"fault": "timeout"},
    "connection": {"fault": "connection"},
}


def begin(router: Router, name: str, fault: str, *, times: int = TIMES, seconds: float = SECONDS) -> None:
    """Let the next `times` attempts on a route or provider meet a fault; after `seconds` all is as it was before.

    Raises ValueError for an unknown name or fault.
    """
    known = FAULTS.get(fault)
    if known is None:
        raise ValueError(f"no fault {fault!r} to rehearse; known: {', '.join(FAULTS)}")
    router.rehearse(name, times=times, seconds=seconds, **known).begin()


def end(router: Router) -> None:
    """End every rehearsal of the router."""
    for rehearsal in router.rehearsals:
        rehearsal.end()
