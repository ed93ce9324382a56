"""An empty place to run commands in, and servers on loopback that behave in known ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from typer.testing import CliRunner

from shim._config.presets import presets
from shim.cli.app import app
from shim.local.provider import LocalProvider
from shim.local.server import Answer, Handler

MODEL = "wordllama-256"
model = LocalProvider().handle_http


def run(*arguments: str, answers: str = "") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    result = CliRunner().invoke(app, list(arguments), input=answers)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, click.unstyle(result.stderr)


def empty_place(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """A working directory without configuration, an environment without keys, a cache of its own."""
    variables = {name for preset in presets().providers.values() for name in preset.key_variables}
    for name in {*variables, "SHIM_CONFIG", "CLOUDFLARE_ACCOUNT_ID", "OPENAI_ADMIN_KEY"}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "home" / ".config"))
    monkeypatch.setenv("SHIM_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(folder)
    return folder


def backwards(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """The same model with its numbers in reverse: a valid answer in another vector space."""
    asked = json.loads(body) | {"encoding_format": "float"}
    status, named, answer = model(method, path, headers, json.dumps(asked).encode())
    document = json.loads(answer)
    for row in document.get("data", []):
        row["embedding"] = row["embedding"][::-1]
    return status, named, json.dumps(document).encode()


def insists_on(key: str) -> Handler:
    """The model behind one key; another key is repeated in the refusal, as some providers do."""

    def handler(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if given == key:
            return model(method, path, headers, body)
        return _error(401, f"Incorrect API key provided: {given}", "invalid_api_key", None)

    return handler


def chats(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
    """A chat model of the newer kind, which refuses `max_tokens`."""
    asked = json.loads(body)
    if "max_tokens" in asked:
        text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
        return _error(400, text, "unsupported_parameter", "max_tokens")
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "length"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"], "usage": usage}
    return 200, [("content-type", "application/json")], json.dumps({**answer, "choices": [choice]}).encode()


def _error(status: int, message: str, code: str, param: str | None) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "code": code, "param": param}
    return status, [("content-type", "application/json")], json.dumps({"error": error}).encode()
