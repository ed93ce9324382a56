"""Every command of these tests runs in an empty place."""

from __future__ import annotations

from pathlib import Path

import pytest

from shim.cli.demo_stage import direct_vectors
from shim.local.models import WORDLLAMA
from tests.cli.places import empty_place


@pytest.fixture(autouse=True, scope="session")
def _the_model_is_loaded() -> None:
    """Reading the weights takes longest where little time is given: it must not fall into an attempt."""
    if WORDLLAMA.is_installed:
        direct_vectors(("warm",))


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return empty_place(monkeypatch, tmp_path)
