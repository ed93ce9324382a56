"""`shim explain` and `shim status`: what they show, their JSON, their exit codes, and the mistakes that they tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shim.cli.complaints import BAD_USE
from tests.cli.places import run

SECRET = "sk-never-to-be-shown-4711"
CONFIG = """
default_embedding = "words"
[providers.one]
base_url = "http://127.0.0.1:1/v1"
api_key = "${ONE_KEY}"
[providers.two]
base_url = "http://127.0.0.1:2/v1"
api_key = "${TWO_KEY}"
[providers.three]
base_url = "http://127.0.0.1:3/v1"
enabled = false
[families.words]
kind = "embedding"
dimensions = 256
routes = [{ provider = "one", model = "w", dimensions_param = "" }, "two/w", "three/w"]
[families.words.policy]
attempt_timeout = 7
[families.fast]
kind = "chat"
routes = ["one/gpt"]
[policy]
max_retries = 5
breaker = { failures = 9 }
"""


def test_explain_shows_the_price_that_ships_with_its_date(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    (place / "shim.toml").write_text(
        "[providers.openai]\n[families.text-embedding-3-small]\n"
        "[families.text-embedding-3-large]\n"
        'routes = [{ provider = "openai", model = "text-embedding-3-large", price = { input = 9.5 } }]\n'
    )
    _, out, _ = run("explain", "text-embedding-3-small")
    assert "0.02" in out
    assert "Prices: genai-prices" in out
    assert "2026-" in out
    _, out, _ = run("explain", "text-embedding-3-large")
    assert "9.5" in out
    assert "Prices" not in out


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, place: Path) -> Path:
    monkeypatch.setenv("ONE_KEY", SECRET)
    path = place / "shim.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.usefixtures("written")
def test_explain_shows_the_order_and_why_routes_are_skipped() -> None:
    code, out, _ = run("explain", "auto")
    assert code == 0
    assert "embedding family words" in out
    assert "one/w" in out
    assert "ONE_KEY" in out
    assert "no key: set TWO_KEY" in out
    assert "switched off" in out


@pytest.mark.usefixtures("written")
def test_explain_finds_a_chat_family_without_being_told_the_kind() -> None:
    code, out, _ = run("explain", "fast", "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "chat"


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("asked", [["wrds"], ["fast", "--kind", "embedding"]])
def test_an_unknown_model_ends_in_exit_code_1_with_what_is_near(asked: list[str]) -> None:
    code, out, _ = run("explain", *asked)
    assert code == 1
    assert "belongs to no family" in out
    assert "words" in out


@pytest.mark.usefixtures("written")
def test_dimensions_belong_to_embeddings() -> None:
    assert run("explain", "words", "--dimensions", "256")[0] == 0
    assert run("explain", "words", "--dimensions", "64")[0] == 1
    code, _, err = run("explain", "fast", "--kind", "chat", "--dimensions", "256")
    assert code == 2
    assert "--dimensions 256" in err


@pytest.mark.usefixtures("written")
def test_status_shows_keys_by_name_and_what_is_missing() -> None:
    code, out, err = run("status")
    assert code == 0
    assert "ONE_KEY" in out
    assert "set TWO_KEY" in out
    assert "provider off" in out
    assert "policy.max_retries = 5" in out
    assert "policy.breaker.failures = 9" in out
    assert "families.words.policy.attempt_timeout = 7.0" in out
    assert "each running process" in out
    assert SECRET not in out + err


@pytest.mark.usefixtures("written")
def test_status_speaks_json_without_keys() -> None:
    _, out, _ = run("status", "--json")
    document = json.loads(out)
    assert SECRET not in out
    assert [line["state"] for line in document["providers"]] == ["ready", "no key", "off"]
    assert [line["state"] for line in document["routes"]] == ["ready", "no key", "provider off", "ready"]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("command", [("status",), ("explain", "auto")], ids=lambda words: words[0])
def test_no_line_is_wider_than_80_columns_and_none_is_coloured(command: tuple[str, ...]) -> None:
    _, out, _ = run(*command)
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


COMMANDS = [("status",), ("explain", "auto"), ("check",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
def test_no_configuration_names_the_ways_out(command: tuple[str, ...]) -> None:
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert "shim init" in err
    assert "--config PATH" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("providers = [", "is not TOML"),
        ("[providers.opnai]", "did you mean 'openai'"),
        (None, "cannot be read"),
    ],
    ids=["bad TOML", "wrong name", "no file"],
)
def test_a_wrong_configuration_is_told_without_a_traceback(
    place: Path, command: tuple[str, ...], text: str | None, told: str
) -> None:
    if text is not None:
        (place / "my.toml").write_text(text)
    code, out, err = run(*command, "--config", str(place / "my.toml"))
    assert (code, out) == (2, "")
    assert told in err
    assert "my.toml" in err


def test_a_missing_package_is_told_without_a_traceback(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    def cannot(*_: object) -> None:
        raise ImportError("reading YAML needs: pip install 'openai-shim[yaml]'")

    monkeypatch.setattr("shim.loading.load", cannot)
    code, _, err = run("status", "--config", "litellm.yaml")
    assert code == BAD_USE
    assert "openai-shim[yaml]" in err


def test_the_version_is_told() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out.startswith("openai-shim ")
