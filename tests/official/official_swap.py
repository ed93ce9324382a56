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


OURS = swap(os.environ["OFFICIAL_SUITE_CLASSES"])


def pytest_collection_finish() -> None:
    """Refuse to go on when the suite's fixtures make official clients: such a run would prove nothing."""
    conftest = sys.modules.get("tests.conftest")
    if conftest is not None and (conftest.OpenAI, conftest.AsyncOpenAI) != OURS:
        raise pytest.UsageError("the suite's conftest imported openai before the swap")
