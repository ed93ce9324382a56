"""A kit for tests that must run offline: cassettes of real answers, scripted providers, and faults on demand.

    from shim.testing import use_cassette, FakeProvider, FakeClock, serve, router_over, answers, faults

Names are found when they are used: the plugin for pytest is read in every run of it and must cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shim.testing import answers as answers
    from shim.testing import faults as faults
    from shim.testing.cassette import Cassette as Cassette
    from shim.testing.cassette import UnrecordedRequest as UnrecordedRequest
    from shim.testing.cassette import UnusedRecordings as UnusedRecordings
    from shim.testing.clock import FakeClock as FakeClock
    from shim.testing.provider import FakeProvider as FakeProvider
    from shim.testing.provider import serve as serve
    from shim.testing.recording import CassetteError as CassetteError
    from shim.testing.routers import router_over as router_over
    from shim.testing.use import use_cassette as use_cassette

_PLACES = {
    "Cassette": "cassette",
    "CassetteError": "recording",
    "FakeClock": "clock",
    "FakeProvider": "provider",
    "UnrecordedRequest": "cassette",
    "UnusedRecordings": "cassette",
    "router_over": "routers",
    "serve": "provider",
    "use_cassette": "use",
}

__all__ = [
    "Cassette",
    "CassetteError",
    "FakeClock",
    "FakeProvider",
    "UnrecordedRequest",
    "UnusedRecordings",
    "answers",
    "faults",
    "router_over",
    "serve",
    "use_cassette",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("answers", "faults"):
        return import_module(f"shim.testing.{name}")
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'shim.testing' has no attribute {name!r}")
    value = getattr(import_module(f"shim.testing.{place}"), name)
    globals()[name] = value
    return value
