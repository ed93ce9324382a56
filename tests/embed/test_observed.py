"""A store holds one space: who may add to it, whatever became of the configuration since."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shim
from shim.embed import Job, StoreError
from tests.embed.serving import Provider, config
from tests.support.server import Server

TEXTS = [f"row {number}" for number in range(60)]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def first() -> Iterator[Server]:
    with Server(Provider()) as made:
        yield made


@pytest.fixture
def same() -> Iterator[Server]:
    with Server(Provider()) as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with Server(Provider(salt="another space")) as made:
        yield made


def _family(*routes: tuple[str, Server, int], check: bool = True, model: str = "") -> dict[str, Any]:
    """Routes by name, server and priority."""
    given = config(*(server for _, server, _ in routes), policy={"space_check": check})
    given["providers"] = {
        name: {"base_url": server.base_url, "api_key": f"key-of-{name}-0123456789"} for name, server, _ in routes
    }
    given["families"]["fam"]["routes"] = [
        {"provider": name, "model": model or f"m-{name}", "priority": priority} for name, _, priority in routes
    ]
    return given


def _embed(given: dict[str, Any], texts: list[str]) -> Job:
    with shim.OpenAI(router=given) as client:
        job: Job = client.embed(texts, progress=False)
        return job


def _spaces(job: Job) -> list[str]:
    return sorted({space.split(":")[0] for space in job.provenance["space"]})


def test_a_route_that_was_never_compared_is_not_called_observed_and_not_mixed_in(
    first: Server, same: Server, other: Server
) -> None:
    """The reference of an earlier configuration lies on the disk still."""
    assert _spaces(_embed(_family(("a", first, 1), ("b", same, 1)), TEXTS[:20])) == ["observed"]
    with pytest.raises(StoreError, match=r"made by m-a .*, and family 'fam' is now m-c: vectors of two"):
        _embed(_family(("c", other, 1)), TEXTS)
    trusted = _embed(_family(("c", same, 1), check=False), TEXTS)
    assert _spaces(trusted) == ["declared", "observed"]


def test_a_route_that_made_the_vectors_goes_on_alone(first: Server, same: Server, tmp_path: Path) -> None:
    _embed(_family(("a", first, 1), ("b", same, 2)), TEXTS[:20])
    assert _spaces(_embed(_family(("a", first, 1)), TEXTS[:40])) == ["observed"]
    for path in (tmp_path / "cache" / "spaces").iterdir():
        path.unlink()
    assert _embed(_family(("a", first, 1)), TEXTS).summary().done == 60


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:20]], ids=["some are new", "all are there"])
@pytest.mark.parametrize("is_dry", [False, True], ids=["a job", "a dry run"])
def test_another_model_under_the_same_familys_name_is_refused(
    first: Server, other: Server, texts: list[str], is_dry: bool
) -> None:
    """A route alone in its family is never compared: its model's name is all there is to go by."""
    _embed(_family(("a", first, 1), model="acme/small-v1"), TEXTS[:20])
    with shim.OpenAI(router=_family(("a", other, 1), model="acme/small-v2")) as client:
        with pytest.raises(
            StoreError, match=r"made by acme/small-v1 \(a/acme/small-v1\), and family 'fam' is now acme"
        ):
            client.embed(texts, progress=False, dry_run=is_dry)
        assert client.embed(texts, progress=False, fresh=True).summary().cached == 0


def test_the_same_model_at_another_address_goes_on(first: Server, same: Server) -> None:
    _embed(_family(("a", first, 1), model="acme/Small"), TEXTS[:20])
    moved = _embed(_family(("b", same, 1), model="small:latest"), TEXTS)
    assert moved.summary().cached == 20


def test_a_model_of_another_name_goes_on_where_the_old_route_stands_beside_it(first: Server, same: Server) -> None:
    _embed(_family(("a", first, 1)), TEXTS[:20])
    both = _embed(_family(("b", same, 1), ("a", first, 2), check=False), TEXTS)
    assert both.summary().cached == 20


def test_an_observed_route_that_moved_is_compared_before_it_adds_anything(first: Server, other: Server) -> None:
    """The same names, and another server behind them."""
    assert _spaces(_embed(_family(("a", first, 1), ("b", first, 2)), TEXTS[:20])) == ["observed"]
    with pytest.raises(StoreError, match="a/m-a at its present address was never compared with it"):
        _embed(_family(("a", other, 1)), TEXTS)


def test_vectors_from_before_the_space_was_observed_are_not_mixed_with_one_who_comes_before_their_maker(
    first: Server, other: Server, tmp_path: Path
) -> None:
    _embed(_family(("a", first, 1)), TEXTS[:20])
    with pytest.raises(
        StoreError, match="were made by a/m-a before any space was observed, and b/m-b was not compared"
    ):
        _embed(_family(("b", other, 1), ("a", first, 2)), TEXTS)
    for path in (tmp_path / "cache" / "spaces").iterdir():
        path.unlink()
    job = _embed(_family(("a", first, 1), ("b", other, 2)), TEXTS)
    assert set(job.provenance["route"]) == {"a/m-a"}


def test_a_second_route_of_the_same_space_may_join_a_store_from_before(first: Server, same: Server) -> None:
    _embed(_family(("a", first, 1)), TEXTS[:20])
    job = _embed(_family(("a", first, 1), ("b", same, 1)), TEXTS)
    assert job.summary().done == 60
    assert _spaces(job) == ["declared", "observed"]
