"""The public names are what is written here: a change of them is a change of this file."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys

import openai
import pytest

import shim

NAMES = [
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

ROUTER = [
    "async_http_client",
    "calls",
    "disable",
    "discover",
    "enable",
    "explain",
    "force_open",
    "http_client",
    "load",
    "pin",
    "publish",
    "rehearsals",
    "rehearse",
    "reset",
    "spaces",
    "status",
    "subscribe",
    "unpin",
    "unsubscribe",
]

ATTEMPT = [
    "number",
    "family",
    "provider",
    "model",
    "key",
    "purpose",
    "verdict",
    "scope",
    "reason",
    "message",
    "status",
    "started_at",
    "duration",
    "first_byte",
    "input_tokens",
    "output_tokens",
    "cost",
    "breaker",
    "retry_at",
    "is_rehearsal",
    "is_told",
]

CALL = [
    "id",
    "family",
    "kind",
    "mode",
    "ending",
    "started_at",
    "duration",
    "attempts",
    "winner",
    "retry_at",
]


def test_the_public_names() -> None:
    assert sorted(shim.__all__) == NAMES
    assert all(getattr(shim, name) is not None for name in NAMES)
    assert set(NAMES) <= set(dir(shim))


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="'shim' has no attribute 'Ruoter'"):
        _ = shim.Ruoter


def test_the_members_of_a_router() -> None:
    assert sorted(name for name in vars(shim.Router) if not name.startswith("_")) == ROUTER


def test_the_fields_of_the_records() -> None:
    assert [field.name for field in dataclasses.fields(shim.Attempt)] == ATTEMPT
    assert [field.name for field in dataclasses.fields(shim.Call)] == CALL


@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI"])
def test_the_clients_take_what_the_official_ones_take(name: str) -> None:
    ours, theirs = getattr(shim, name), getattr(openai, name)
    assert issubclass(ours, theirs)
    for method in ("__init__", "copy", "with_options"):
        assert inspect.signature(getattr(ours, method)) == inspect.signature(getattr(theirs, method))
    added = {member for member in dir(ours) if not member.startswith("_") and member not in dir(theirs)}
    assert added == {"embed", "router"}


def test_importing_shim_imports_nothing_heavy() -> None:
    """The official client is loaded with the first name that needs it."""
    code = "import sys, shim; print([name for name in ('openai', 'httpx', 'httpx2', 'numpy') if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
