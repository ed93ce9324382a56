"""Whole jobs over a real server on loopback, sync and async: rows, errors, provenance, limits, resuming."""

from __future__ import annotations

import asyncio
import inspect
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import shim
from shim import JobProgress, JobState
from shim.embed import EmbeddingStoppedError, Estimate, Job, RowsFailedError, SourceError, StoreError
from shim.events import BreakerChanged, CallFinished
from tests.embed.serving import (
    LENGTH,
    Embed,
    Provider,
    altered,
    config,
    expected,
    failing,
    on_rows,
    rate_limited,
    resetting,
)
from tests.support import answers
from tests.support.server import Peer, Seen, Server


def _rows(job: Job) -> list[Any]:
    return [None if np.isnan(row).all() else row.tolist() for row in job.vectors]


def _right(texts: list[str]) -> Any:
    return np.array([expected(text) for text in texts], dtype=np.float32).tolist()


def test_every_row_has_its_own_vector_in_the_order_of_the_input(embed: Embed, server: Server) -> None:
    texts = [f"row {number % 70}" + "!" * (number % 13) for number in range(1000)]
    job = embed(config(server), texts)
    assert _rows(job) == _right(texts)
    summary = job.summary()
    assert (summary.state, summary.rows, summary.done, summary.failed) == ("done", 1000, 1000, 0)
    assert summary.duplicates == 1000 - len(set(texts))
    assert summary.embedded == len(set(texts))
    assert summary.shares == {"a/m-a": 1.0}
    assert summary.tokens == len(set(texts)), "the server counts a token for each text"


def test_bad_cells_are_error_rows_and_never_sent(embed: Embed, server: Server, provider: Provider) -> None:
    cells = ["one", None, "", "  ", float("nan"), pd.NA, 7, "bad \ud800", "nul \x00", np.str_("two")]
    job = embed(config(server), cells)
    assert [row is None for row in _rows(job)] == [False, *[True] * 8, False]
    assert set(provider.asked) == {"one", "two"}
    assert job.errors["index"].tolist() == list(range(1, 9))
    assert job.errors["kind"].tolist() == ["null", "empty", "empty", "null", "null", *["rejected"] * 3]
    assert job.summary().errors == {"null": 3, "empty": 2, "rejected": 3}


def test_nothing_is_paid_for_twice(embed: Embed, server: Server, provider: Provider) -> None:
    texts = [f"row {number}" for number in range(300)]
    first = embed(config(server), texts[:200])
    second = embed(config(server), texts)
    assert max(provider.asked.values()) == 1
    assert _rows(second)[:200] == _rows(first)
    assert second.summary().cached == 200
    third = embed(config(server), texts)
    assert third.summary().requests == 0
    assert _rows(third) == _rows(second)


def test_fresh_begins_anew_and_keeps_the_old_store_aside(embed: Embed, server: Server, provider: Provider) -> None:
    embed(config(server), ["a", "b"])
    embed(config(server), ["a", "b"], fresh=True)
    assert set(provider.asked.values()) == {2}


def test_provenance_names_who_made_each_row(embed: Embed, server: Server) -> None:
    job = embed(config(server), ["a", None, "b"])
    frame = job.provenance
    assert frame["route"].tolist()[::2] == ["a/m-a", "a/m-a"]
    assert frame["route"].isna().tolist() == [False, True, False]
    assert frame["model"].tolist()[0] == "m-a"
    assert frame["space"].tolist()[0].startswith("declared:")
    assert frame["call"].notna().tolist() == [True, False, True]


def test_a_poison_row_is_found_and_the_rest_goes_on(embed: Embed, server: Server, provider: Provider) -> None:
    provider.poison = frozenset({"row 5", "row 77"})
    texts = [f"row {number}" for number in range(100)]
    job = embed(config(server), texts, batch_size=50)
    assert job.errors["index"].tolist() == [5, 77]
    assert job.errors["kind"].tolist() == ["rejected", "rejected"]
    assert "'$.input' is invalid" in job.errors["message"][0]
    assert job.errors["route"].tolist() == ["a/m-a", "a/m-a"]
    good = [text for text in texts if text not in provider.poison]
    assert [row for row in _rows(job) if row is not None] == _right(good)
    assert max(provider.asked.values()) == 1, "no good row was asked for twice"


@pytest.mark.parametrize("fault", ["null", "zeros", "nan", "500"])
def test_rows_without_a_vector_open_no_breaker(embed: Embed, server: Server, provider: Provider, fault: str) -> None:
    """A handful of texts that a server cannot embed; the rest is done at once, over the breaker's usual rules."""
    bad = {f"row {number}" for number in (5, 77, 78, 150)}
    values: dict[str, Any] = {"null": None, "zeros": [0.0] * LENGTH, "nan": [None] * LENGTH}

    def spoil(provider: Provider, request: Seen, peer: Peer) -> bool:
        texts = request.json["input"]
        if not bad.intersection(texts):
            return False
        if fault == "500":
            peer.answer(500, answers.error("Internal Server Error"))
            return True
        answer = answers.embeddings(request, provider.length, provider.salt)
        for row in answer["data"]:
            if texts[row["index"]] in bad:
                row["embedding"] = values[fault]
        peer.answer(200, answer)
        return True

    provider.faults = [spoil]
    moved: list[object] = []
    given = config(server)
    router = shim.Router(given)
    router.subscribe(lambda event: moved.append(event) if isinstance(event, BreakerChanged) else None)
    job = embed(router, [f"row {number}" for number in range(200)], batch_size=50)
    assert moved == []
    assert job.errors["index"].tolist() == [5, 77, 78, 150]
    assert all("row 0" not in message for message in job.errors["message"])
    assert job.summary().done == 196


def test_a_row_that_was_refused_before_goes_alone_the_next_time(
    embed: Embed, server: Server, provider: Provider
) -> None:
    provider.poison = frozenset({"row 5"})
    embed(config(server), [f"row {number}" for number in range(20)])
    provider.sizes.clear()
    job = embed(config(server), [f"row {number}" for number in range(40)])
    assert sorted(provider.sizes) == [1, 20]
    assert job.errors["index"].tolist() == [5]


def test_retry_failed_asks_for_the_failed_rows_alone(server: Server, provider: Provider, tmp_path: Path) -> None:
    provider.poison = frozenset({"row 5"})
    with shim.OpenAI(router=config(server)) as client:
        job = client.embed([f"row {number}" for number in range(20)], store=tmp_path)
        assert job.summary().failed == 1
        provider.poison = frozenset()
        provider.sizes.clear()
        assert job.retry_failed() is job
    assert provider.sizes == [1]
    assert job.summary().failed == 0
    assert _rows(job) == _right([f"row {number}" for number in range(20)])


def test_an_iterator_cannot_be_read_twice(server: Server, tmp_path: Path) -> None:
    with shim.OpenAI(router=config(server)) as client:
        job = client.embed(iter(["a"]), store=tmp_path)
        with pytest.raises(SourceError, match="used up"):
            job.retry_failed()


def test_rate_limits_slow_the_job_and_lose_nothing(embed: Embed, server: Server, provider: Provider) -> None:
    provider.faults = [rate_limited(0.4)]
    texts = [f"row {number}" for number in range(400)]
    job = embed(config(server), texts, batch_size=20)
    assert _rows(job) == _right(texts)
    assert job.summary().retries > 0


def test_everything_at_once_loses_exactly_the_bad_rows(embed: Embed, tmp_path: Path) -> None:
    """20,000 rows: 10 % 429, 5 % 500, resets, short and reordered answers, three poison rows, and a second route that
    is in another space. Every other row is bit-equal to a clean run's, and comes from the right space."""
    texts = [f"row {number} " + "x" * (number % 17) for number in range(20_000)]
    poison = {4, 9_999, 19_998}
    clean, other = Provider(), Provider(salt="another space")
    faults = [
        rate_limited(0.10),
        failing(0.05),
        resetting(0.02),
        altered(0.03, lambda data: data[:-1]),
        altered(0.05, lambda data: reversed(data)),
    ]
    faulty = Provider([on_rows(fault) for fault in faults], poison=frozenset(texts[row] for row in poison))
    with Server(clean) as first, Server(faulty) as second, Server(other) as third:
        calm = embed(config(first), texts, store=tmp_path / "clean")
        both = config(second, third, policy={"space_check": True})
        both["families"]["fam"]["routes"] = [  # the first one sets the space
            {"provider": "a", "model": "m-a"},
            {"provider": "b", "model": "m-b", "priority": 2},
        ]
        job = embed(both, texts, store=tmp_path / "faulty", batch_size=200)
    assert set(job.errors["index"]) == poison
    rest = np.array([row for row in range(len(texts)) if row not in poison])
    assert job.vectors[rest].tobytes() == calm.vectors[rest].tobytes()
    assert set(job.provenance["route"].dropna()) == {"a/m-a"}
    assert "another space" not in str(job.summary())
    assert not any(text.startswith("row ") for text in other.asked), "no row went to the other space"


def test_a_second_route_of_the_same_space_takes_its_share(embed: Embed) -> None:
    slow, quick = Provider(), Provider()
    with Server(slow) as first, Server(quick) as second:
        texts = [f"row {number}" for number in range(2000)]
        job = embed(config(first, second, policy={"space_check": True}), texts, batch_size=20)
    assert _rows(job) == _right(texts)
    shares = job.summary().shares
    assert set(shares) == {"a/m-a", "b/m-b"}
    assert sum(shares.values()) == pytest.approx(1)
    assert set(job.provenance["space"]) == {next(iter(job.provenance["space"]))}
    assert job.provenance["space"][0].startswith("observed:")


def test_a_dead_provider_raises_and_says_how_little_is_done(embed: Embed, provider: Provider, server: Server) -> None:
    provider.faults = [failing(1.0, 503)]
    with pytest.raises(EmbeddingStoppedError, match=r"no route is left.*boom.*0 of 5 rows.*run it again") as caught:
        embed(config(server), ["a", "b", "c", "d", "e"], patience=0.3)
    assert caught.value.job.summary().not_reached == 5
    assert np.isnan(caught.value.job.vectors).all()


def test_an_expired_key_is_told_in_the_words_of_its_route(embed: Embed, provider: Provider, server: Server) -> None:
    """Also where other batches met the cooldown that the first had brought: no call inside tells of its own end."""
    provider.faults = [failing(1.0, 401)]
    for _ in range(2):
        with pytest.raises(
            EmbeddingStoppedError, match=r"a/m-a: (?:back in 9\d\d s \(bad_key: )?boom\)?; 0 of"
        ) as caught:
            embed(config(server), [f"row {number}" for number in range(50)], batch_size=5, patience=0.3)
        assert "All providers" not in str(caught.value)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("policy", [{}, {"when_exhausted": "wait", "max_retries": 2}], ids=["fail", "wait"])
def test_a_provider_that_never_says_when_it_is_back_is_left_after_the_jobs_own_patience(
    embed: Embed, provider: Provider, server: Server, status: int, policy: dict[str, Any]
) -> None:
    """Also where single calls of the family wait for their whole deadline."""
    provider.faults = [failing(1.0, status)]
    with pytest.raises(EmbeddingStoppedError, match="no route is left"):
        embed(config(server, policy=policy), ["a", "b"], patience=0.3)


def test_a_share_of_failed_rows_at_the_very_limit_is_allowed(embed: Embed, server: Server) -> None:
    """0.29 * 100 is a little less than 29."""
    job = embed(config(server), [None] * 29 + ["a"] * 71, max_error_rate=0.29)
    assert job.summary().failed == 29


def test_a_route_that_dies_in_the_middle_leaves_the_rest_for_another_run(
    embed: Embed, provider: Provider, server: Server
) -> None:
    texts = [f"row {number}" for number in range(100)]

    def dies(one: Provider, request: Seen, peer: Peer) -> bool:
        return len(one.asked) >= 40 and failing(1.0, 503)(one, request, peer)

    provider.faults = [dies]
    with pytest.raises(EmbeddingStoppedError) as caught:
        embed(config(server), texts, batch_size=10, patience=0.3, concurrency=1)
    assert caught.value.job.summary().done == 40
    provider.faults = []
    job = embed(config(server), texts)
    assert _rows(job) == _right(texts)
    assert max(provider.asked.values()) == 1


def test_too_many_failed_rows_stop_the_job(embed: Embed, server: Server) -> None:
    with pytest.raises(EmbeddingStoppedError, match=r"more than the 5\.0% allowed"):
        embed(config(server), ["a", None, "b"], max_error_rate=0.05)


def test_failed_rows_raise_when_asked_and_all_is_kept(embed: Embed, server: Server) -> None:
    with pytest.raises(RowsFailedError, match=r"1 row without a vector \(1 null\)") as caught:
        embed(config(server), ["a", None, "b"], on_error="raise")
    assert caught.value.job.summary().done == 2


def test_a_row_limit_stops_cleanly(embed: Embed, server: Server, provider: Provider) -> None:
    job = embed(config(server), [f"row {number}" for number in range(50)], limit_rows=20)
    assert job.state is JobState.STOPPED
    assert job.summary().done == 20
    assert job.summary().not_reached == 30
    assert len(provider.asked) == 20


def test_a_spending_limit_stops_before_it_is_passed(embed: Embed, server: Server) -> None:
    """The server counts one token a text, at a dollar each; planned is a little more."""
    priced = config(server)
    priced["families"]["fam"]["routes"] = [{"provider": "a", "model": "m-a", "price": {"input": 1_000_000}}]
    job = embed(priced, [f"row {number}" for number in range(100)], limit_usd=30, batch_size=2, concurrency=1)
    summary = job.summary()
    assert job.state is JobState.STOPPED
    assert summary.cost is not None
    assert 0 < summary.cost <= 30
    assert "would pass the limit of $30" in summary.message


def test_a_limit_without_a_price_is_refused(embed: Embed) -> None:
    priced = config(Server(Provider()))
    priced["providers"]["a"]["base_url"] = "https://api.example.com/v1"
    with pytest.raises(SourceError, match=r"limit_usd: the price of a/m-a is not known"):
        embed(priced, ["a"], limit_usd=1)


def test_batches_keep_to_the_routes_limits(embed: Embed, server: Server, provider: Provider) -> None:
    given = config(server)
    given["families"]["fam"]["routes"] = [{"provider": "a", "model": "m-a", "max_inputs": 7}]
    embed(given, [f"row {number}" for number in range(50)], batch_size=1000)
    assert max(provider.sizes) == 7


@pytest.mark.parametrize("input_type", ["document", "query", ""])
def test_the_input_type_is_told_and_has_a_space_of_its_own(
    embed: Embed, server: Server, provider: Provider, input_type: str
) -> None:
    given = config(server)
    rules = {"parameter": "input_type", "query": "search_query", "document": "search_document"}
    given["families"]["fam"]["routes"] = [{"provider": "a", "model": "m-a", "input_type": rules}]
    embed(given, ["a"], input_type=input_type)
    job = embed(given, ["a"], input_type="query")
    assert provider.bodies[0].get("input_type") == (f"search_{input_type}" if input_type else None)
    assert job.summary().cached == (1 if input_type == "query" else 0)


@pytest.mark.parametrize(
    ("oversize", "done"), [("error", 1), ("truncate", 2), ("split-mean", 2)], ids=["error", "truncate", "split-mean"]
)
def test_long_texts_by_policy(embed: Embed, server: Server, provider: Provider, oversize: str, done: int) -> None:
    given = config(server)
    given["families"]["fam"]["routes"] = [{"provider": "a", "model": "m-a", "max_input_tokens": 20}]
    long = " ".join(f"word{number}" for number in range(60))
    job = embed(given, ["short", long], oversize=oversize)
    assert job.summary().done == done
    note = job.provenance["note"].tolist()[1]
    if oversize == "error":
        assert job.errors["kind"].tolist() == ["oversize"]
        assert "tokens where the model takes 20" in job.errors["message"][0]
    elif oversize == "truncate":
        (cut,) = [text for text in provider.asked if text != "short"]
        assert long.startswith(cut)
        assert _rows(job)[1] == _right([cut])[0]
        assert note.startswith("cut to 20 of about")
    else:
        parts = [text for text in provider.asked if text != "short"]
        assert sorted(parts, key=long.index) == parts or "".join(sorted(parts, key=long.index)) == long
        assert note.startswith(f"mean of {len(parts)} parts")
        assert np.linalg.norm(job.vectors[1]) == pytest.approx(1, abs=1e-6)
    again = embed(given, ["short", long], oversize=oversize)
    assert again.summary().requests == 0
    assert np.array_equal(again.vectors, job.vectors, equal_nan=True)


def test_normalised_vectors_have_length_one(embed: Embed, tmp_path: Path) -> None:
    def doubled(provider: Provider, request: Seen, peer: Peer) -> bool:
        data = [
            {"index": place, "embedding": [2 * number for number in expected(text)]}
            for place, text in enumerate(request.json["input"])
        ]
        peer.answer(200, {"data": data, "model": "m"})
        return True

    with Server(Provider([doubled])) as server:
        plain = embed(config(server), ["a", "b"])
        job = embed(config(server), ["a", "b"], normalise=True)
    assert np.linalg.norm(plain.vectors, axis=1) == pytest.approx([2, 2])
    assert np.linalg.norm(job.vectors, axis=1) == pytest.approx([1, 1])


def test_a_dry_run_sends_nothing_and_says_what_it_would_take(embed: Embed, server: Server, provider: Provider) -> None:
    embed(config(server), ["a", "b"])
    provider.sizes.clear()
    found = embed(config(server), ["a", "b", "c", "c", None, "d"], dry_run=True, batch_size=1)
    assert isinstance(found, Estimate)
    assert provider.sizes == []
    assert (found.rows, found.bad, found.duplicates, found.cached, found.to_embed) == (6, 1, 1, 2, 2)
    assert found.requests == 2
    assert found.cost == 0


@pytest.mark.parametrize(
    ("choice", "says"),
    [
        ({"batch_size": 0}, "batch_size: a whole number of at least 1, not 0"),
        ({"concurrency": True}, "concurrency: a whole number"),
        ({"oversize": "cut"}, "oversize: one of 'error', 'truncate', 'split-mean', not 'cut'"),
        ({"dtype": "int8"}, "dtype: one of 'float32', 'float16', not 'int8'"),
        ({"input_type": "doc"}, "input_type: one of 'document', 'query', '', not 'doc'"),
        ({"max_error_rate": 2}, "max_error_rate: a share from 0 to 1"),
        ({"limit_usd": -1}, "limit_usd: a number of at least 0, not -1"),
        ({"family": "other"}, "there is no embedding family 'other'; the configuration has: fam"),
        ({"out": "x.xlsx"}, "out: cannot write a .xlsx; known: .parquet"),
        ({"out": "nowhere/x.parquet"}, "there is no folder 'nowhere'"),
        ({"into": "v"}, "`into` needs a frame"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_mistake_is_named(embed: Embed, server: Server, choice: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        embed(config(server), ["a"], **choice)
    assert says in str(caught.value)


def test_a_client_without_a_configuration_says_what_is_missing() -> None:
    with (
        shim.OpenAI(api_key="key-0123456789", router=False) as client,
        pytest.raises(SourceError, match="needs a configuration"),
    ):
        client.embed(["a"])


def test_progress_is_told_to_a_callback_and_to_observers(server: Server, tmp_path: Path) -> None:
    told: list[JobProgress] = []
    seen: list[Any] = []
    with shim.OpenAI(router=config(server)) as client:
        assert client.router is not None
        client.router.subscribe(seen.append)
        client.embed(["a", None, "a"], store=tmp_path, progress=told.append)
    assert told == [event for event in seen if isinstance(event, JobProgress)]
    last = told[-1]
    assert last.state is JobState.DONE
    assert (last.rows, last.done, last.failed, last.duplicates) == (3, 2, 1, 1)
    assert last.shares == {"a/m-a": 1}
    assert [event.call.mode for event in seen if isinstance(event, CallFinished)] == ["job"]


def test_a_job_that_waits_says_so_and_until_when(provider: Provider, server: Server, tmp_path: Path) -> None:
    told: list[JobProgress] = []

    def busy(one: Provider, request: Seen, peer: Peer) -> bool:
        return not told[-1].waiting_until and rate_limited(1.0, "700")(one, request, peer)

    provider.faults = [busy]
    with shim.OpenAI(router=config(server)) as client:
        client.embed(["a"], store=tmp_path, progress=told.append)
    waiting = [one for one in told if one.state is JobState.WAITING]
    assert waiting
    assert "slow down" in waiting[0].message
    assert 0 < (waiting[0].waiting_until or 0.0) - waiting[0].at <= 0.7


def test_a_callback_that_raises_never_breaks_a_job(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: JobProgress) -> None:
        raise RuntimeError("no display")

    with shim.OpenAI(router=config(server)) as client:
        job = client.embed(["a"], store=tmp_path, progress=broken)
    assert job.summary().done == 1
    assert sum("progress callback" in record.message for record in caplog.records) == 1


def test_a_bar_without_a_terminal_never_breaks_a_job(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("shim.embed.bar.Bar.__call__", gone)
    monkeypatch.setattr("shim.embed.bar.Bar.close", gone)
    with shim.OpenAI(router=config(server)) as client:
        assert client.embed(["a"], store=tmp_path, progress=True).summary().done == 1


def test_a_store_that_cannot_be_made_is_named(embed: Embed, server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file/fam-.* cannot be made \(Not a directory\): name another as `store`"):
        embed(config(server), ["a"], store=tmp_path / "file")


def test_the_store_keeps_no_text_not_even_in_a_refusal(embed: Embed, tmp_path: Path) -> None:
    secret = "a private sentence"

    def repeats(provider: Provider, request: Seen, peer: Peer) -> bool:
        peer.answer(400, answers.error(f"this is no input: {request.json['input'][0]}"))
        return True

    with Server(Provider([repeats])) as server:
        job = embed(config(server), [secret])
    assert secret in job.errors["message"][0]
    assert not any(secret.encode() in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())


def test_a_stopped_job_has_a_row_of_provenance_for_each_row(embed: Embed, server: Server) -> None:
    job = embed(config(server), [f"row {number}" for number in range(70_000)], limit_rows=20)
    assert len(job.provenance) == len(job.vectors) == 70_000
    assert job.provenance["route"].notna().sum() == 20


def test_an_async_job_runs_beside_other_work_and_is_cancelled(tmp_path: Path) -> None:
    held = threading.Event()

    def holds(provider: Provider, request: Seen, peer: Peer) -> bool:
        if len(provider.asked) < 20:
            return False
        held.set()
        peer.hang()
        return True

    provider = Provider([holds])

    async def main(server: Server) -> Job:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            job = client.embed([f"row {number}" for number in range(100)], store=tmp_path, batch_size=10, concurrency=1)
            assert inspect.isawaitable(job)
            await asyncio.to_thread(held.wait, 5)
            assert job.cancel()
            with pytest.raises(asyncio.CancelledError, match=r"20 of 100 rows have their vector and are kept"):
                await job
            return job

    with Server(provider) as server:
        job = asyncio.run(main(server))
        assert job.state is JobState.CANCELLED
        assert job.summary().done == 20
        provider.faults = []
        with shim.OpenAI(router=config(server)) as client:
            again = client.embed([f"row {number}" for number in range(100)], store=tmp_path)
    assert again.summary().cached == 20
    assert max(provider.asked.values()) == 1
    assert again.vectors.shape == (100, LENGTH)


def test_an_async_job_has_no_results_before_it_is_awaited(server: Server, tmp_path: Path) -> None:
    async def main() -> None:
        async with shim.AsyncOpenAI(router=config(server)) as client:
            job = client.embed(["a"], store=tmp_path)
            with pytest.raises(RuntimeError, match="await it first"):
                _ = job.vectors
            assert await job is job
            assert await job is job, "a second await gives the same"

    asyncio.run(main())
