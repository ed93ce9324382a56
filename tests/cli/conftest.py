"""Every command of these tests runs in an empty place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.places import empty_place


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return empty_place(monkeypatch, tmp_path)
