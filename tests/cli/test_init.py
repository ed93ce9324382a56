"""`shim init`: what it asks, what it writes, and that what it writes can be read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shim import Router, loading
from shim._config.presets import presets
from shim.local.models import WORDLLAMA
from tests.cli.places import run

SECRET = "sk-never-to-be-written-4711"


def test_what_it_writes_loads_and_names_families_that_two_providers_serve(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    code, out, _ = run("init", "--yes")
    config = loading.load(place / "shim.toml")
    assert code == 0
    assert "openai, openrouter" in out
    assert {"openai", "openrouter"} <= set(config.providers)
    assert [route.provider for route in config.families["text-embedding-3-small"].routes] == ["openai", "openrouter"]
    assert config.default_embedding == "text-embedding-3-small"


def test_no_key_is_written_or_shown(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    _, out, err = run("init", "--yes")
    assert SECRET not in out + err + (place / "shim.toml").read_text()


def test_what_it_writes_loads_with_every_known_provider_at_once(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    for preset in presets().providers.values():
        for variable in preset.key_variables[:1]:
            monkeypatch.setenv(variable, SECRET)
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", "1234")
    code, _, _ = run("init", "--yes")
    config = loading.load(place / "shim.toml")
    assert code == 0
    assert len(config.providers) > 20
    assert all(len(family.routes) > 1 for family in config.families.values() if family.name != WORDLLAMA.name)


def test_the_commented_lines_are_good_ones(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Whoever takes the comment signs away gets a configuration, not a riddle."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("LAB_KEY", SECRET)
    run("init", "--yes")
    lines = (place / "shim.toml").read_text().splitlines()
    bare = [
        line[2:] if line.startswith(("# [", '# "')) or (" = " in line[:40] and line[:2] == "# ") else line
        for line in lines
    ]
    config = loading.load(tomllib.loads("\n".join(bare).replace("<model>", "gpt-4o-mini")))
    assert config.providers["lab"].keys
    assert config.families["fast"].routes[0].route == "openai/gpt-4o-mini"


@pytest.mark.skipif(not WORDLLAMA.is_installed, reason="needs the local extra")
def test_without_any_key_the_local_model_is_configured_and_serves(place: Path) -> None:
    code, _, _ = run("init")
    assert code == 0
    assert [step.route for step in Router.load(place / "shim.toml").explain("auto").steps] == ["local/wordllama-256"]


def test_each_provider_is_asked_for(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("GROQ_API_KEY", SECRET)
    code, out, _ = run("init", answers="n\ny\n")
    assert code == 0
    assert "OPENAI_API_KEY is set. Use openai?" in out
    assert set(loading.load(place / "shim.toml").providers) - {"local"} == {"groq"}


def test_providers_that_share_a_key_are_asked_for_once(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    _, out, _ = run("init", answers="y\n")
    assert out.count("Use ") == 1
    assert {"huggingface", "huggingface-chat"} <= set(loading.load(place / "shim.toml").providers)


def test_a_provider_that_lacks_more_than_a_key_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", f" {SECRET}")
    code, out, _ = run("init", "--yes")
    assert code == 0
    assert "CLOUDFLARE_ACCOUNT_ID must be set too" in out
    assert "white space" in out
    assert set(loading.load(place / "shim.toml").providers) == {"local"}


def test_nothing_is_overwritten_without_force(place: Path) -> None:
    (place / "shim.toml").write_text("# mine")
    code, _, err = run("init", "--yes")
    assert code == 2
    assert "--force" in err
    assert (place / "shim.toml").read_text() == "# mine"
    assert run("init", "--yes", "--force")[0] == 0
    assert "[providers.local]" in (place / "shim.toml").read_text()


def test_without_an_answer_nothing_is_written(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    code, _, err = run("init", answers="")
    assert code == 2
    assert "nothing was written" in err
    assert not (place / "shim.toml").exists()


def test_nothing_to_write_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.local.models.ModelCard.is_installed", False)
    code, _, err = run("init", "--yes")
    assert code == 2
    assert "OPENAI_API_KEY" in err
    assert "pip install 'openai-shim[local]'" in err


@pytest.mark.parametrize("name", ["shim.yaml", "pyproject.toml"])
def test_only_a_file_of_its_own_is_written(name: str) -> None:
    code, _, err = run("init", "--yes", "--path", name)
    assert code == 2
    assert name in err
