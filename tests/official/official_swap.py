"""A pytest plugin that puts our client classes where openai keeps its own, before any test module is imported.

OFFICIAL_SUITE_CLASSES says which: `module:SyncClass,AsyncClass`. Azure, Bedrock and the module-level client stay what
they are: they were made from the official classes when openai was imported, and a user of ours has them unchanged too.
"""

from __future__ import annotations

import importlib
import os
import sys

import openai
import pytest

# The attribute `openai._client` is the module-level client; the module of that name is found by import alone.
_HOLDERS = (openai, importlib.import_module("openai._client"))


def swap(classes: str) -> tuple[type, type]:
    """Replace `OpenAI`, `Client`, `AsyncOpenAI` and `AsyncClient`; returns the classes that stand there now."""
    module_name, _, names = classes.partition(":")
    sync_name, _, async_name = names.partition(",")
    module = importlib.import_module(module_name)
    ours: tuple[type, type] = getattr(module, sync_name), getattr(module, async_name)
    for mine, official, aliases in zip(
        ours, (openai.OpenAI, openai.AsyncOpenAI), (("OpenAI", "Client"), ("AsyncOpenAI", "AsyncClient")), strict=True
    ):
        if mine is official or not issubclass(mine, official):
            raise pytest.UsageError(f"{classes}: {mine!r} is not a subclass of {official!r}")
        for holder in _HOLDERS:
            for alias in aliases:
                setattr(holder, alias, mine)
    return ours


def _check_router(client_class: type) -> None:
    """The routed run must have a router and the pass-through run none, or both would judge the same thing."""
    with client_class(api_key="unused") as client:
        has_router = getattr(client, "router", None) is not None
        if hasattr(client, "router") and has_router != ("SHIM_CONFIG" in os.environ):
            raise pytest.UsageError(f"{client_class!r} has {'a' if has_router else 'no'} router in this run")


OURS = swap(os.environ["OFFICIAL_SUITE_CLASSES"])
_check_router(OURS[0])


def pytest_collection_finish() -> None:
    """Refuse to go on when the suite's fixtures make official clients: such a run would prove nothing."""
    conftest = sys.modules.get("tests.conftest")
    if conftest is not None and (conftest.OpenAI, conftest.AsyncOpenAI) != OURS:
        raise pytest.UsageError("the suite's conftest imported openai before the swap")
