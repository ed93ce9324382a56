"""A drop-in replacement for the official `openai` client that survives its providers.

from shim import OpenAI
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shim.client import AsyncOpenAI as AsyncOpenAI
    from shim.client import OpenAI as OpenAI
    from shim.config_error import ConfigError as ConfigError
    from shim.errors import AllProvidersFailedError as AllProvidersFailedError
    from shim.errors import StreamConnectionError as StreamConnectionError
    from shim.errors import StreamInterruptedError as StreamInterruptedError
    from shim.errors import StreamTimeoutError as StreamTimeoutError
    from shim.events import Attempt as Attempt
    from shim.events import BreakerState as BreakerState
    from shim.events import Call as Call
    from shim.events import Ending as Ending
    from shim.events import JobProgress as JobProgress
    from shim.events import JobState as JobState
    from shim.events import Kind as Kind
    from shim.events import Purpose as Purpose
    from shim.events import Scope as Scope
    from shim.events import Verdict as Verdict
    from shim.router import Router as Router
    from shim.served import attempts as attempts

__version__ = "0.1.0"

_PLACES = {
    "AllProvidersFailedError": "errors",
    "AsyncOpenAI": "client",
    "Attempt": "events",
    "BreakerState": "events",
    "Call": "events",
    "ConfigError": "config_error",
    "Ending": "events",
    "JobProgress": "events",
    "JobState": "events",
    "Kind": "events",
    "OpenAI": "client",
    "Purpose": "events",
    "Router": "router",
    "Scope": "events",
    "StreamConnectionError": "errors",
    "StreamInterruptedError": "errors",
    "StreamTimeoutError": "errors",
    "Verdict": "events",
    "attempts": "served",
}

__all__ = [
    "AllProvidersFailedError",
    "AsyncOpenAI",
    "Attempt",
    "BreakerState",
    "Call",
    "ConfigError",
    "Ending",
    "JobProgress",
    "JobState",
    "Kind",
    "OpenAI",
    "Purpose",
    "Router",
    "Scope",
    "StreamConnectionError",
    "StreamInterruptedError",
    "StreamTimeoutError",
    "Verdict",
    "attempts",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'shim' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"shim.{place}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
