"""A place of its own for the blocks of each file: servers, a configuration, a made-up key for every variable."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.local.models import WORDLLAMA
from tests.docs.stage import stage


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, object]]:
    """What the Python blocks of one file find when they begin."""
    if not WORDLLAMA.is_installed:
        pytest.skip("needs the local extra")
    from shim.cli.demo_stage import direct_vectors

    direct_vectors(("warm",))  # reading the weights must not fall into an attempt
    for name in ("OR_KEY_A", "OR_KEY_B", "LAB_KEY"):
        monkeypatch.setenv(name, f"made-up-{name.lower()}")
    monkeypatch.chdir(tmp_path)
    with stage(tmp_path) as prepared:
        yield prepared
    if "shim.embed.worker" in sys.modules:
        sys.modules["shim.embed.worker"].dismiss()
