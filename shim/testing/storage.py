"""Cassettes as files: YAML in vcrpy's format (version 1), written to be read and to be compared line by line.

The first line says where the answers come from. Bodies of several lines, as event streams are, stand as blocks and are
kept byte for byte; long vectors are packed (`packing`); bodies that are no text are base64. A file is replaced as a
whole, so that a reader never sees half of one.
"""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shim.testing.packing import pack, unpack
from shim.testing.recording import Asked, CassetteError, Recording, Said

try:
    import yaml
except ModuleNotFoundError as missing:
    raise ImportError("cassettes need the extra `testing`: pip install 'openai-shim[testing]'") from missing

VERSION = 1
SYNTHETIC = "synthetic"
RECORDED = "recorded"
_BREAKS = frozenset("\x85\u2028\u2029")
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PYTHON = "tag:yaml.org,2002:python/"
_OF_OLD_HTTPX = "status_code"


class _Loader(_Safe):  # type: ignore[misc]
    """Reads what old vcrpy wrote for texts of Python 2 and for uploads; makes no other objects."""


def _upload(loader: Any, node: Any) -> Any:
    """The bytes of a `BytesIO`, the first thing of its state."""
    return loader.construct_mapping(node, deep=True)["state"][0]


_Loader.add_constructor(f"{_PYTHON}unicode", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor(f"{_PYTHON}str", lambda loader, node: loader.construct_scalar(node))
_Loader.add_constructor(f"{_PYTHON}bytes", lambda loader, node: loader.construct_yaml_binary(node))
_Loader.add_constructor(f"{_PYTHON}tuple", lambda loader, node: loader.construct_sequence(node, deep=True))
_Loader.add_constructor(f"{_PYTHON}object/new:_io.BytesIO", _upload)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Blocks for texts of several lines, and no folding: a line of a cassette is a line of an answer."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if not _BREAKS.isdisjoint(text):
        style: str | None = '"'  # escaped there; anywhere else YAML takes them for ends of lines
    else:
        style = "|" if "\n" in text else ("'" if text[:1] in "{[" else None)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def read(path: Path) -> tuple[dict[str, Any], list[Recording]]:
    """What a cassette says of itself, and its recordings. Raises `CassetteError`; `FileNotFoundError` where none is."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except IsADirectoryError as error:
        raise CassetteError(f"{path}: is a folder: name a file in it") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CassetteError(f"{path}: is no YAML: {error}; record it again, or restore it") from error
    if document is None:
        return {}, []
    if isinstance(document, list):
        raise CassetteError(f"{path}: was recorded by vcrpy before 1.0: `python -m vcr.migration {path}` makes it anew")
    if not isinstance(document, dict) or not isinstance(document.get("interactions"), list):
        raise CassetteError(f"{path}: has no list `interactions`: it is no cassette of version {VERSION}")
    if document.get("version") != VERSION:
        raise CassetteError(f"{path}: version {document.get('version')!r}, and this reads version {VERSION}")
    metadata = dict(document.get("metadata") or {})
    recordings = []
    for number, one in enumerate(document["interactions"], start=1):
        try:
            recordings.append(_recording(one, is_ours="source" in metadata))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"{type(error).__name__}: {error}"
            raise CassetteError(f"{path}: interaction {number} cannot be read ({what})") from error
    return metadata, recordings


def write(path: Path, metadata: Mapping[str, Any], recordings: Iterable[Recording]) -> None:
    """Write a cassette whole, or not at all."""
    text = dump(metadata, recordings)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", text=False)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        Path(name).chmod(0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def dump(metadata: Mapping[str, Any], recordings: Iterable[Recording]) -> str:
    """The text of a cassette file."""
    document = {
        "version": VERSION,
        "metadata": dict(metadata),
        "interactions": [_interaction(one) for one in recordings],
    }
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31)
    return f"# {headline(metadata)}\n{body}"


def headline(metadata: Mapping[str, Any]) -> str:
    """The first line of a cassette: where its answers come from."""
    if metadata.get("source") == SYNTHETIC:
        return f"Synthetic: no server gave these answers. {metadata.get('about', '')}".strip()
    parts = [f"Recorded from {metadata.get('server') or 'a server that was not named'}"]
    if metadata.get("recorded_at"):
        parts.append(f"on {metadata['recorded_at']}")
    return " ".join(parts) + "."


def _interaction(recording: Recording) -> dict[str, Any]:
    asked, said = recording.asked, recording.said
    headers: dict[str, list[str]] = {}
    for name, value in said.headers:
        headers.setdefault(name, []).append(value)
    return {
        "request": {
            "method": asked.method,
            "uri": asked.url,
            "headers": {name: [value] for name, value in sorted(asked.headers.items())},
            "body": _written(asked.body),
        },
        "response": {
            "status": {"code": said.status, "message": said.phrase},
            "headers": dict(sorted(headers.items())),
            "body": {"string": _written(said.body, packed=True)},
        },
    }


def _written(body: bytes, *, packed: bool = False) -> str | bytes:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return body  # YAML writes it as base64
    return pack(text) if packed else text


def _recording(one: Mapping[str, Any], *, is_ours: bool) -> Recording:
    request, response = one["request"], one["response"]
    if _OF_OLD_HTTPX in response:
        body, status = response["content"], {"code": response[_OF_OLD_HTTPX]}
    else:
        body, status = _content(response["body"]), response["status"]
    asked_headers = {name.lower(): _first(value) for name, value in (request.get("headers") or {}).items()}
    said_headers = tuple(
        (name.lower(), str(value))
        for name, values in (response.get("headers") or {}).items()
        for value in (values if isinstance(values, list) else [values])
    )
    if isinstance(body, str) and not is_ours:  # vcrpy has written many a text that it had decoded, and left the header
        said_headers = tuple(pair for pair in said_headers if pair[0] != "content-encoding")
    return Recording(
        Asked(request["method"], request["uri"], asked_headers, _bytes(request.get("body"), "the request's body")),
        Said(
            int(status["code"]),
            said_headers,
            _bytes(unpack(body) if isinstance(body, str) else body, "the answer's body"),
            status.get("message") or "",
        ),
    )


def _content(body: Mapping[str, Any]) -> Any:
    if "base64_string" in body:
        return base64.b64decode(body["base64_string"])
    return body["string"]


def _first(value: object) -> str:
    return str(value[0]) if isinstance(value, list) else str(value)


def _bytes(body: object, what: str) -> bytes:
    """A body as it was sent. One that was written as YAML by hand is JSON."""
    match body:
        case None:
            return b""
        case bytes():
            return body
        case str():
            return body.encode("utf-8")
        case dict() | list():
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        case _:
            raise ValueError(f"{what} is no text but {body!r}: put it in quotes")
