"""How a cassette looks on a terminal: an exchange a line, or one of them whole."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from shim._core.sse import SSEParser
from shim.cli import tables
from shim.testing.packing import pack
from shim.testing.recording import Asked, Recording, Said
from shim.testing.storage import headline

_SHORT = 60


def show_all(path: object, metadata: Mapping[str, Any], recordings: Sequence[Recording]) -> None:
    """The cassette: where it comes from, and its exchanges in their order."""
    out = tables.console()
    out.print(f"{path}: {tables.printable(headline(metadata))}", soft_wrap=True)
    for name, value in metadata.items():
        if name not in ("source", "server", "recorded_at"):
            shown = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
            out.print(tables.styled(f"  {name}: {tables.printable(shown)}", tables.QUIET), soft_wrap=True)
    rows = [
        (str(number), tables.printable(_asked(one.asked)), _status(one.said), tables.printable(_said(one.said)))
        for number, one in enumerate(recordings, start=1)
    ]
    out.print()
    out.print(tables.table(("#", "request", "status", "answer"), rows, right=("#", "status")))


def show_one(recording: Recording) -> None:
    """One exchange: headers and bodies, JSON laid out, long vectors shortened."""
    out = tables.console()
    out.print(str(recording.asked), soft_wrap=True)
    _print_body(recording.asked.body)
    out.print()
    out.print(_status(recording.said) + (f" {recording.said.phrase}" if recording.said.phrase else ""))
    for name, value in recording.said.headers:
        out.print(tables.printable(f"{name}: {value}"), soft_wrap=True)
    out.print()
    _print_body(recording.said.body)


def _print_body(body: bytes) -> None:
    text = pack(body.decode("utf-8", "backslashreplace"))
    with contextlib.suppress(ValueError):
        text = json.dumps(_shortened(json.loads(text)), indent=2, ensure_ascii=False)
    for line in text.splitlines():
        tables.console().print(tables.printable(line) if not line[:1].isspace() else _indented(line), soft_wrap=True)


def _indented(line: str) -> str:
    rest = line.lstrip(" ")
    return " " * (len(line) - len(rest)) + tables.printable(rest)


def _shortened(value: Any) -> Any:
    """Base64 of vectors and media says nothing to a reader."""
    if isinstance(value, dict) and "packed" in value:
        starts = ", ".join(str(number) for number in value["starts"])
        return f"{value['length']} numbers of norm {value['norm']}: {starts}, …"
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, str) and len(value) > 400 and " " not in value:
        return f"{value[:40]}… ({len(value)} characters)"
    return value


def _status(said: Said) -> str:
    return str(said.status) if said.status else "none"


def _asked(asked: Asked) -> str:
    try:
        fields = json.loads(asked.body)
    except ValueError:
        fields = None
    what = ""
    if isinstance(fields, dict):
        told = fields.get("input", fields.get("messages", ""))
        if isinstance(told, list) and told and isinstance(told[-1], dict) and "content" in told[-1]:
            told = told[-1]["content"]
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        what = f" {fields.get('model', '')}: {_short(text)}"
    return f"{asked.method} {asked.parts.netloc}{asked.parts.path}{what}"


def _said(said: Said) -> str:
    if not said.status:
        return said.phrase
    text = said.body.decode("utf-8", "replace")
    if said.content_type == "text/event-stream":
        return _stream(said.body)
    try:
        document = json.loads(text)
    except ValueError:
        return _short(text)
    return _short(_gist(document) or text)


def _stream(body: bytes) -> str:
    """How many events, and the text that they carry."""
    events = SSEParser().feed(body)
    said = ""
    for event in events:
        with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
            fields = json.loads(event.data)
            if str(fields.get("type", "")).endswith(".delta"):
                said += str(fields["delta"])
            elif "error" in fields:
                said += f" [error: {fields['error'].get('message', '')}]"
            else:
                said += fields["choices"][0]["delta"].get("content") or ""
    return f"{len(events)} events: {_short(said)}"


def _gist(document: Any) -> str:
    """What an answer says, if it is one of the usual ones."""
    if not isinstance(document, dict):
        return ""
    if isinstance(document.get("error"), dict):
        return str(document["error"].get("message", ""))
    data = document.get("data")
    if isinstance(data, list) and data and isinstance(data[0], dict) and "embedding" in data[0]:
        return tables.counted(len(data), "vector")
    choices = document.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return str(message.get("content", "")) if isinstance(message, dict) else ""
    return ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else line[: _SHORT - 1] + "…"
