"""Sharing through a real Redis: what one worker hears, all know; a Redis that goes away costs no row."""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from shim.embed import redis_sharing
from shim.embed.redis_sharing import Exchange, through_redis
from shim.embed.worker import worker_for
from tests.distributed import redis_server
from tests.distributed.conftest import Made
from tests.embed.serving import Provider
from tests.support import answers
from tests.support.server import Peer, Seen, Server

pytest.importorskip("redis", reason="needs the extra redis: scripts/test_distributed installs it")
SERVERS = redis_server.found()
pytestmark = pytest.mark.skipif(not SERVERS, reason="needs a redis-server: scripts/test_distributed installs one")


@pytest.fixture(params=sorted(SERVERS) or ["none"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A server of each kind that there is."""
    with redis_server.running(SERVERS[request.param], tmp_path) as made:
        yield made


@pytest.fixture
def one_address(tmp_path: Path) -> Iterator[str]:
    """A server of any kind, for what takes long."""
    with redis_server.running(next(iter(SERVERS.values())), tmp_path) as made:
        yield made


@pytest.fixture
def exchange(address: str) -> Exchange:
    return through_redis(address, "party")


def _until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never came about"


# -- the exchange


def test_every_member_counts_once(exchange: Exchange) -> None:
    assert exchange(["a"], [])[0] == 1
    assert exchange(["a"], [])[0] == 1
    assert exchange(["b", "c"], [])[0] == 3


def test_a_member_without_a_beat_is_not_counted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = through_redis(address, "party")
    monkeypatch.setattr(redis_sharing, "LEASE", 0.2)
    exchange(["dead"], [])
    _until(lambda: exchange(["alive"], [])[0] == 1)


def test_parties_know_nothing_of_one_another(address: str) -> None:
    one, two = through_redis(address, "one"), through_redis(address, "two")
    one(["a"], [("a/m", 60.0, "slow down", True)])
    assert two(["b"], []) == (1, [])


def test_a_pause_is_told_with_what_is_left_of_it(exchange: Exchange) -> None:
    exchange(["a"], [("a/m", 60.0, 'slow "down"\n', True), ("b/m", 60.0, "", False)])
    _, left = exchange(["b"], [])
    assert {(route, reason, is_told) for route, _, reason, is_told in left} == {
        ("a/m", 'slow "down"\n', True),
        ("b/m", "", False),
    }
    assert all(59.0 < seconds <= 60.0 for _, seconds, _, _ in left)


def test_a_later_guess_shortens_nothing_and_a_longer_pause_counts(exchange: Exchange) -> None:
    exchange(["a"], [("a/m", 60.0, "first", True)])
    _, ((_, left, reason, _),) = exchange(["a"], [("a/m", 5.0, "second", True)])
    assert (left > 59, reason) == (True, "first")
    _, ((_, left, reason, _),) = exchange(["a"], [("a/m", 90.0, "third", True)])
    assert (left > 89, reason) == (True, "third")


def test_a_pause_that_is_over_is_gone(exchange: Exchange) -> None:
    exchange(["a"], [("a/m", 0.05, "short", True), ("b/m", 60.0, "long", True)])
    _until(lambda: [one[0] for one in exchange(["a"], [])[1]] == ["b/m"])


def test_nothing_is_left_behind(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key expires: a job that is over leaves nothing in somebody's Redis."""
    import redis

    monkeypatch.setattr(redis_sharing, "LEASE", 0.1)
    through_redis(address, "party")(["a"], [("a/m", 0.2, "short", True)])
    with redis.Redis.from_url(address) as client:
        assert client.dbsize() == 2
        _until(lambda: client.dbsize() == 0)


# -- whole jobs


def _frame(first: int, rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": range(first, first + rows), "text": [f"row {number}" for number in range(first, first + rows)]}
    )


class Limited(Provider):
    """Answers each request after 20 ms; the fifth gets a 429 with three seconds to wait. Notes when requests came."""

    def __call__(self, request: Seen, peer: Peer) -> None:
        with self._lock:
            self.times: list[float] = [*getattr(self, "times", []), time.monotonic()]
            number = len(self.times)
        if number == 5:
            self.limited_at = time.monotonic()
            peer.answer(429, answers.error("slow down", "rate_limit_exceeded"), [("retry-after", "3")])
            return
        peer.gone.wait(0.02)
        super().__call__(request, peer)


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "not shared"])
def test_a_rate_limit_that_one_process_meets_rests_all(
    one_address: str, embedder: Made, server: Server, is_shared: bool
) -> None:
    """Without sharing the other process goes on meanwhile: so the provider's limit is met again and again."""
    limited = server.script = Limited()
    embed = embedder(workers=2, concurrency=2, batch_size=5, share=one_address if is_shared else None)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.map(embed, [_frame(0, 800), _frame(800, 800)], chunksize=1)
    assert pd.concat(parts)["embedding_error"].isna().all()
    rest = [at - limited.limited_at for at in limited.times if 1.5 < at - limited.limited_at < 2.8]
    assert (rest == []) is is_shared


def test_a_redis_that_goes_away_in_the_middle_costs_no_row(
    embedder: Made, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    binary, port = next(iter(SERVERS.values())), redis_server.free_port()
    embed = embedder(workers=2, share=f"redis://127.0.0.1:{port}/0")
    with redis_server.running(binary, tmp_path, port):
        embed(_frame(0, 100))
        sharing: Any = worker_for(embed.assignment).sharing
        assert sharing.live == 1
    with caplog.at_level(logging.WARNING, "shim"):
        member = sharing.join()
        _until(lambda: bool(caplog.records))
        assert embed(_frame(100, 100))["embedding_error"].isna().all()
        sharing.leave(member)
    assert sharing.most() == 4, "its part of what was configured"
    assert len(caplog.records) == 1
    with redis_server.running(binary, tmp_path, port):
        member = sharing.join()
        _until(lambda: sharing.most() == 8)
        sharing.leave(member)


def test_a_redis_that_was_never_there_costs_no_row(embedder: Made, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "shim"):
        embed = embedder(share=f"redis://:secret-word@127.0.0.1:{redis_server.free_port()}/0")
        assert embed(_frame(0, 10))["embedding_error"].isna().all()
    assert "secret-word" not in caplog.text
    assert "sharing through Redis does not work" in caplog.text
