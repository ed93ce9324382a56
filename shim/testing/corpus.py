"""Makes cassettes of recorded answers that were collected elsewhere, one JSON file each.

Such a file holds `provider`, `kind`, `situation`, a `request` (`method`, `host`, `path`, `query`, `body`), a `response`
(`status`, `headers` as pairs, `body` as text) and a `source` (`repo`, `commit`, `licence`, `recorded_at`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shim.testing import storage
from shim.testing.recording import Asked, CassetteError, Recording, Said
from shim.testing.scrubbing import Scrubber

_OF_THE_WIRE = frozenset({"connection", "content-encoding", "content-length", "transfer-encoding"})


def read_item(path: Path) -> dict[str, Any]:
    """One collected answer. Raises `CassetteError` for anything else."""
    try:
        item = json.loads(path.read_text(encoding="utf-8"))
        wanted = item["request"]["path"], item["response"]["status"], item["response"]["body"], item["provider"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CassetteError(f"{path}: is no collected answer ({type(error).__name__}: {error})") from error
    if not isinstance(wanted[1], int):
        raise CassetteError(f"{path}: response.status must be a number, is {wanted[1]!r}")
    return dict(item)


def recording_of(item: Mapping[str, Any]) -> Recording:
    """The exchange, without anything that belongs to an account. A host that is not known is `<provider>.invalid`."""
    request, response = item["request"], item["response"]
    host = request.get("host") or "("
    named = f"{item['provider']}.invalid" if host.startswith("(") else host
    query = f"?{request['query']}" if request.get("query") else ""
    body = request.get("body")
    sent = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = tuple((name.lower(), value) for name, value in response["headers"] if name.lower() not in _OF_THE_WIRE)
    found, _ = Scrubber().scrub(
        Recording(
            Asked(
                request["method"],
                f"https://{named}{request['path']}{query}",
                {"content-type": "application/json"},
                sent,
            ),
            Said(response["status"], headers, response["body"].encode()),
        )
    )
    return found


def metadata_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """What the cassette says of itself: who answered, who recorded it, under which licence."""
    source = item.get("source") or {}
    told = {
        "source": storage.RECORDED,
        "server": f"{item['provider']} (collected by {source.get('repo', 'somebody')})",
        "recorded_at": source.get("recorded_at"),
        "provider": item["provider"],
        "situation": item.get("situation"),
        "kind": item.get("kind"),
        "authenticity": item.get("authenticity"),
        "commit": source.get("commit"),
        "licence": source.get("licence"),
    }
    return {name: value for name, value in told.items() if value is not None}


def convert(path: Path, into: Path) -> Path:
    """Write the cassette of one collected answer, `<into>/<provider>/<file>.yaml`; where it is now."""
    item = read_item(path)
    target: Path = into / item["provider"] / f"{path.stem}.yaml"
    storage.write(target, metadata_of(item), [recording_of(item)])
    return target
