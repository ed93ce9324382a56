"""The vector space is observed over a real wire: who joins, who is refused, what it costs, what is remembered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import shim
from shim.events import Purpose, Verdict
from tests.support import answers
from tests.support.answers import vector
from tests.support.faces import MODEL, Face, configuration, out
from tests.support.fixtures import Serve
from tests.support.server import Peer, Script, Seen

LENGTH = 16
CHECKED: dict[str, object] = {"space_check": True}


def embeds(salt: str = "", noise: float = 0.0, is_dead: Callable[[], bool] = lambda: False) -> Script:
    """Vectors of one space (a salt is a space of its own), with some noise of another mixed in."""

    def script(request: Seen, peer: Peer) -> None:
        if is_dead():
            peer.answer(500, answers.error())
            return
        asked = request.json
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        rows = []
        for text in texts:
            own, other = vector(text, LENGTH, salt), vector(text, LENGTH, "noise")
            mixed = [a + noise * b for a, b in zip(own, other, strict=True)]
            norm = sum(number * number for number in mixed) ** 0.5
            rows.append([number / norm for number in mixed])
        data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        peer.answer(200, {"object": "list", "data": data, "model": asked["model"], "usage": usage})

    return script


async def embed(client: Any, text: str = "a", **extra: Any) -> Any:
    return await out(client.embeddings.create(model=MODEL, input=[text], **extra))


def probes(server: Any) -> int:
    return sum(request.json["input"] != ["a"] for request in server.seen)


async def test_a_route_of_the_same_space_joins(face: Face, serve: Serve) -> None:
    dead = False
    first, second = serve(embeds(is_dead=lambda: dead)), serve(embeds())
    client = face.client(configuration("embedding", first, second, policy=CHECKED))
    before = await embed(client)
    dead = True
    after = await embed(client)
    assert shim.attempts(after)[-1].provider == "b"
    assert after.data[0].embedding == pytest.approx(before.data[0].embedding, abs=1e-6)
    assert probes(second) > 0


async def test_a_route_of_another_space_is_refused_and_named(face: Face, serve: Serve) -> None:
    dead = False
    first, second = serve(embeds(is_dead=lambda: dead)), serve(embeds("another"))
    client = face.client(configuration("embedding", first, second, policy=CHECKED))
    await embed(client)
    dead = True
    with pytest.raises(shim.AllProvidersFailedError) as caught:
        await embed(client)
    refused = caught.value.attempts[-1]
    assert (refused.verdict, refused.reason, refused.provider) == (Verdict.BROKEN, "space", "b")
    assert "b/m-b is in another vector space" in refused.message
    assert all(request.json["input"] != ["a"] for request in second.seen)
    seen = len(second.seen)
    with pytest.raises(shim.AllProvidersFailedError):
        await embed(client)
    assert len(second.seen) == seen
    client.router.reset()
    with pytest.raises(shim.AllProvidersFailedError, match="another vector space"):
        await embed(client)


async def test_a_little_noise_joins_with_a_warning(plain: Face, serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    dead = False
    first, second = serve(embeds(is_dead=lambda: dead)), serve(embeds(noise=0.1))
    client = plain.client(configuration("embedding", first, second, policy=CHECKED))
    await embed(client)
    dead = True
    with caplog.at_level(logging.WARNING, "shim"):
        await embed(client)
    assert "with a doubt" in caplog.text


async def test_the_check_works_while_the_reference_is_dead(
    plain: Face, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reference is on disk: another process still refuses the other space when the first route is gone."""
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cache"))
    dead = False
    first, other = serve(embeds(is_dead=lambda: dead)), serve(embeds("another"))
    config = configuration("embedding", first, other, policy=CHECKED)
    await embed(plain.client(shim.Router(config)))
    dead = True
    assert list((tmp_path / "cache").rglob("*.json"))
    with pytest.raises(shim.AllProvidersFailedError, match="another vector space"):
        await embed(plain.client(shim.Router(config)))


async def test_what_was_found_is_not_asked_again_in_another_process(
    plain: Face, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cache"))
    first, second = serve(embeds()), serve(embeds())
    config = configuration("embedding", first, second, policy=CHECKED)
    await embed(plain.client(shim.Router(config)))
    asked = probes(first)
    await embed(plain.client(shim.Router(config)))
    assert probes(first) == asked > 0


OFF: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "in the policy": ({"space_check": False}, {}),
    "in the family": ({"space_check": True}, {"policy": {"space_check": False}}),
    "in the routes": (
        {"space_check": True},
        {"routes": [{"provider": name, "model": f"m-{name}", "space_check": False} for name in "ab"]},
    ),
}


@pytest.mark.parametrize(("policy", "family"), OFF.values(), ids=OFF)
async def test_it_is_switched_off_in_so_many_words(
    plain: Face, serve: Serve, policy: dict[str, object], family: dict[str, object]
) -> None:
    first, second = serve(answers.fails(500)), serve(embeds("another"))
    config = configuration("embedding", first, second, policy=policy)
    config["families"]["fam"].update(family)
    client = plain.client(config)
    assert shim.attempts(await embed(client))[-1].provider == "b"
    assert probes(second) == 0


async def test_one_route_alone_is_never_probed(plain: Face, serve: Serve) -> None:
    server = serve(embeds())
    await embed(plain.client(configuration("embedding", server, policy=CHECKED)))
    assert len(server.seen) == 1


async def test_the_probes_stand_in_the_records_as_what_they_are(plain: Face, serve: Serve) -> None:
    client = plain.client(configuration("embedding", serve(embeds()), serve(embeds()), policy=CHECKED))
    made = shim.attempts(await embed(client))
    checks = [attempt for attempt in made if attempt.purpose is Purpose.SPACE_CHECK]
    assert checks
    assert sum(attempt.input_tokens or 0 for attempt in checks) > 0
    assert made[-1].purpose is Purpose.FIRST


@pytest.mark.parametrize("flavour", ["httpx2"])
async def test_twenty_first_calls_probe_once(serve: Serve, flavour: str) -> None:
    first, second = serve(embeds()), serve(embeds())
    face = Face(True, flavour)
    single = face.client(configuration("embedding", serve(embeds()), serve(embeds()), policy=CHECKED))
    await embed(single)
    alone = single.router.calls[-1]
    cost = sum(attempt.purpose is Purpose.SPACE_CHECK for attempt in alone.attempts)
    client = face.client(configuration("embedding", first, second, policy=CHECKED))
    await asyncio.gather(*(embed(client) for _ in range(20)))
    assert probes(first) == cost > 0
    assert len(first.seen) == cost + 20
    await face.close()
