"""Fixtures that lie are caught: every cassette in the tree is used, says where it is from, and still means the same."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from scripts.synthetic import FOLDER as SYNTHETIC
from scripts.synthetic import ROWS, text
from shim.testing import storage, use_cassette
from shim.testing.scrubbing import Scrubber
from tests.support.faces import Face
from tests.support.situations import ALL, Situation, router_for, run, verdicts

ROOT = Path(__file__).resolve().parent.parent.parent
TREE = ROOT / "cassettes"
PATHS = sorted(TREE.rglob("*.yaml"))
ELSEWHERE = [path for folder in ("tests", "examples") for path in sorted((ROOT / folder).rglob("cassettes/**/*.yaml"))]
"""Those of single tests and of the example: they are used where they lie."""
NOWHERE = "http://127.0.0.1:9/v1"
"""Nobody listens there."""


def name_of(path: Path) -> str:
    return str(path.relative_to(TREE if path.is_relative_to(TREE) else ROOT).with_suffix(""))


def situation_of(metadata: dict[str, Any]) -> Situation:
    return ALL[metadata["situation"]]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError("a socket was to be connected")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


@pytest.mark.parametrize("path", PATHS, ids=name_of)
async def test_it_replays_to_its_verdict(path: Path, face: Face) -> None:
    """On both libraries, sync and async; and nothing in it is left over."""
    metadata, recordings = storage.read(path)
    situation = situation_of(metadata)
    host = recordings[0].asked.parts
    router = router_for(situation, NOWHERE, metadata["model"], name=metadata.get("provider", "server"))
    client = face.client(router, base_url=NOWHERE, api_key="none", max_retries=0)
    with use_cassette(path, hosts={NOWHERE: f"{host.scheme}://{host.netloc}"}, all_used=True):
        outcomes = await run(client, situation)
    assert verdicts(router, outcomes) == metadata["verdicts"]


@pytest.mark.parametrize("path", PATHS, ids=name_of)
def test_it_says_where_it_is_from(path: Path) -> None:
    metadata, recordings = storage.read(path)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"# {storage.headline(metadata)}"
    assert len(recordings) >= 1
    if path.is_relative_to(SYNTHETIC):
        assert metadata["source"] == storage.SYNTHETIC
        assert first.startswith("# Synthetic: no server gave these answers.")
        assert "server" not in metadata
    else:
        assert metadata["source"] == storage.RECORDED
        assert re.fullmatch(r"[\w-]+ \d+\.\d+\.\d+", metadata["server"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", metadata["recorded_at"])
        assert path.stem == metadata["situation"]


@pytest.mark.parametrize("path", [*PATHS, *ELSEWHERE], ids=name_of)
def test_it_holds_no_secret(path: Path) -> None:
    """Case V03: no authorization, key, cookie, organisation or telling request id, in headers, URLs and bodies."""
    _, recordings = storage.read(path)
    for recording in recordings:
        scrubbed, findings = Scrubber().scrub(recording)
        assert findings == []
        assert scrubbed == recording
    words = path.read_text(encoding="utf-8").lower()
    for word in (
        "authorization",
        "set-cookie",
        "openai-organization",
        "made-up",
        "127.0.0.1",
        str(Path.home()).lower(),
    ):
        assert word not in words.partition("interactions:")[2], word


@pytest.mark.parametrize("path", [*PATHS, *ELSEWHERE], ids=name_of)
def test_what_is_written_is_what_would_be_written(path: Path) -> None:
    """A file that was edited by hand reads back as something else, or would come out differently."""
    metadata, recordings = storage.read(path)
    assert storage.dump(metadata, recordings) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", ELSEWHERE, ids=name_of)
def test_those_elsewhere_say_where_they_are_from_too(path: Path) -> None:
    metadata, recordings = storage.read(path)
    assert recordings
    assert metadata["source"] in (storage.RECORDED, storage.SYNTHETIC)
    assert path.read_text(encoding="utf-8").startswith(f"# {storage.headline(metadata)}\n")
    assert "not named" not in storage.headline(metadata)


def test_at_least_four_servers_were_asked() -> None:
    servers = {storage.read(path)[0].get("server") for path in PATHS} - {None}
    assert len(servers) >= 4


def test_the_servers_cover_what_matters() -> None:
    """Of every situation that a server is asked, at least two different verdicts on some are there to learn from."""
    seen: dict[str, set[str]] = {}
    for path in PATHS:
        metadata, _ = storage.read(path)
        if metadata["source"] == storage.RECORDED:
            seen.setdefault(metadata["situation"], set()).update(metadata["verdicts"])
    assert set(seen) == set(ALL)
    assert len(seen["embeddings-empty-text"]) >= 2
    assert len(seen["embeddings-null"]) >= 2


def test_usage_is_there_and_is_not() -> None:
    """Streams with the usage that was asked for, and without it."""
    with_usage, without = set(), set()
    for path in PATHS:
        metadata, recordings = storage.read(path)
        if metadata["situation"] == "chat-stream-usage":
            (with_usage if b'"usage":{' in recordings[0].said.body.replace(b" ", b"") else without).add(
                path.parent.name
            )
        if metadata["situation"] == "chat-stream" and path.parent.name != "synthetic":
            assert b'"usage":{' not in recordings[0].said.body
            without.add(path.parent.name)
    assert with_usage
    assert without


def test_the_synthetic_ones_are_those_of_the_table() -> None:
    assert sorted(path.stem for path in SYNTHETIC.glob("*.yaml")) == sorted(row.name for row in ROWS)
    for row in ROWS:
        assert (SYNTHETIC / f"{row.name}.yaml").read_text(encoding="utf-8") == text(row), "run scripts/synthetic.py"


def test_the_bodies_that_are_json_are_json() -> None:
    broken = []
    for path in PATHS:
        _, recordings = storage.read(path)
        for recording in recordings:
            if recording.said.content_type == "application/json":
                try:
                    json.loads(recording.said.body)
                except ValueError:
                    broken.append(path.stem)
    assert broken == ["200-empty", "200-half-json"]


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        pytest.param("429-retry-after", 20, id="a header"),
        pytest.param("429-retry-after-ms", 1, id="a header of nothing beside it"),
        pytest.param("429-words", 62.3, id="words"),
        pytest.param("429-retry-delay", 48, id="a field"),
        pytest.param("503-retry-after", 2, id="of a 503"),
    ],
)
async def test_what_it_says_of_waiting_is_taken(name: str, seconds: float, plain: Face) -> None:
    path = SYNTHETIC / f"{name}.yaml"
    metadata, recordings = storage.read(path)
    router = router_for(situation_of(metadata), NOWHERE, metadata["model"], name=metadata["provider"])
    client = plain.client(router, base_url=NOWHERE, api_key="none", max_retries=0)
    with use_cassette(path, hosts={NOWHERE: f"http://{recordings[0].asked.parts.netloc}"}):
        await run(client, situation_of(metadata))
    attempt = router.calls[-1].attempts[-1]
    assert attempt.retry_at is not None
    assert attempt.retry_at - attempt.started_at == pytest.approx(seconds, abs=1)
