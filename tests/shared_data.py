"""Where the shared reference data lie: beside the repository, never inside it.

Tests that read them skip with a reason where they are absent; in CI absence is a failure.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


def _folder(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        reason = f"the reference data ../shared/{name} are not beside this checkout"
        if os.environ.get("CI"):
            pytest.fail(reason + ", and in CI they must be", pytrace=False)
        pytest.skip(reason, allow_module_level=True)
    return folder


def corpus_dir() -> Path:
    """The folder of recorded provider answers."""
    return _folder("corpus")


def cases_dir() -> Path:
    """The folder of fault cases with their scripted server and runner."""
    return _folder("cases")


def providers_dir() -> Path:
    """The folder of the taxonomy and the presets."""
    return _folder("providers")
