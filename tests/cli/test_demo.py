"""`shim demo`: it proves itself, and says so when it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shim.cli import demo_stage
from shim.local.models import WORDLLAMA
from tests.cli.places import run

installed = pytest.mark.skipif(not WORDLLAMA.is_installed, reason="needs the local extra")


@installed
def test_it_shows_429_timeout_breaker_and_recovery_and_the_right_vectors(place: Path) -> None:
    before = os.environ["SHIM_CACHE_DIR"]
    code, out, _ = run("demo")
    assert code == 0, out
    for word in ("429", "timeout", "now open", "now closed", "same space", "cancelled", "All 10 held"):
        assert word in out
    assert "Snow on the points delayed every train" in out
    assert max(map(len, out.splitlines())) <= 80
    assert os.environ["SHIM_CACHE_DIR"] == before
    assert not (place / "cache").exists()


@installed
def test_wrong_vectors_end_in_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is with the model itself: here the truth is another."""
    monkeypatch.setattr(demo_stage, "ATTEMPT_TIMEOUT", 0.6)
    monkeypatch.setattr(demo_stage, "RETRY_AFTER", 2.0)
    truthful = demo_stage.direct_vectors
    monkeypatch.setattr(demo_stage, "direct_vectors", lambda texts: truthful(texts)[::-1])
    code, out, _ = run("demo")
    assert code == 1
    assert "2 of 10 did not come as they should" in out


def test_without_the_model_it_tells_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.local.models.ModelCard.is_installed", False)
    code, out, err = run("demo")
    assert (code, out) == (2, "")
    assert "pip install 'openai-shim[local]'" in err
