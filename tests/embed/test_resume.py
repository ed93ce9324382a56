"""A job that is killed, interrupted or resumed at any moment asks for no kept row again and maps no row wrongly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import shim
from shim.embed import upkeep
from shim.embed.batches import Item
from shim.embed.errors import StoreError
from shim.embed.identity import Oversize, SpaceIdentity
from shim.embed.intake import Intake, Measure
from shim.embed.lanes import Allowance, Lane
from shim.embed.ledger import Ledger
from shim.embed.limits import Limits
from shim.embed.machine import Machine, Rules
from shim.embed.port import Arrival, Reply, Request
from shim.embed.run import Cancelled, Run
from shim.embed.settings import Settings
from shim.embed.sources import open_source
from shim.embed.store import Store
from shim.embed.tokens import Counter as Tokens
from shim.embed.trouble import Failure, Trouble
from shim.testing import FakeClock
from tests.embed.serving import Provider, config, expected
from tests.support.server import Peer, Seen, Server

SPACE = SpaceIdentity(family="fam", dimensions=None, normalised=False, input_type="document", oversize=Oversize.ERROR)

SCRIPT = """
import sys
import shim
from tests.embed.serving import config

class Server:
    base_url = sys.argv[1]

with shim.OpenAI(router=config(Server())) as client:
    job = client.embed(
        [f"row {number}" for number in range(3000)], store=sys.argv[2], batch_size=20, concurrency=4, progress=False
    )
    print("done", job.summary().done, job.summary().cached, flush=True)
    sys.stdout.buffer.write(job.vectors.tobytes())
"""


def _started(server: Server, store: Path) -> subprocess.Popen[bytes]:
    code = textwrap.dedent(SCRIPT)
    command = [sys.executable, "-c", code, server.base_url, str(store)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=os.getcwd())


@pytest.mark.parametrize("kind", ["SIGKILL", "SIGINT"])
def test_a_job_killed_twice_asks_for_no_kept_row_again(tmp_path: Path, kind: str) -> None:
    """After each death what the index holds is asked for no more; what was in flight may be."""
    provider, store = Provider(), tmp_path / "store"
    again: Counter[str] = Counter()

    def watched(one: Provider, request: Seen, peer: Peer) -> bool:
        again.update(text for text in request.json["input"] if text in kept)
        return False

    kept: set[str] = set()
    provider.faults = [watched]
    with Server(provider) as server:
        for batches in (25, 60):
            process = _started(server, store)
            assert server.wait_until(lambda most=batches: len(provider.asked) >= most * 20, 20)  # type: ignore[misc]
            process.send_signal(getattr(signal, kind))
            _, complaint = process.communicate(timeout=20)
            assert process.returncode != 0
            if kind == "SIGINT":
                assert b"run the same again to go on from there" in complaint
            kept = _kept(store)
            assert len(kept) >= (batches - 8) * 20
        process = _started(server, store)
        out, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    head, _, rest = out.partition(b"\n")
    assert head.split()[:2] == [b"done", b"3000"]
    assert int(head.split()[2]) == len(kept)
    assert again == Counter()
    right = np.array([expected(f"row {number}") for number in range(3000)], dtype=np.float32)
    assert rest == right.tobytes()


def _kept(folder: Path) -> set[str]:
    (store_folder,) = folder.iterdir()
    with Store(store_folder, SPACE) as store:
        key_of = SPACE.keys()
        keys = {key_of(f"row {number}".encode()): f"row {number}" for number in range(3000)}
        return {keys[key] for key in store.find(list(keys))}


# -- any order of failures, retries, splits and resumes


class Time(FakeClock):
    """A clock that a look moves a little."""

    def now(self) -> float:
        self.advance(0.01)
        return super().now()


class Arrivals:
    """A queue whose waits pass at once."""

    def __init__(self, time: Time) -> None:
        self._queue: SimpleQueue[Arrival] = SimpleQueue()
        self._time = time

    def put(self, arrival: Arrival) -> None:
        self._queue.put(arrival)

    def get(self, timeout: float) -> Arrival:
        if self._queue.empty():
            self._time.wait(timeout)
        return self._queue.get_nowait()

    def get_nowait(self) -> Arrival:
        return self._queue.get_nowait()


FAULTS: dict[str, Failure | None] = {
    "ok": None,
    "429": Failure(Trouble.LIMITED, "rate_limit", "slow down", 429, retry_in=1.0),
    "503": Failure(Trouble.DOWN, "server_error", "down", 503),
    "500": Failure(Trouble.DOWN, "server_error", "boom", 500),
    "null": Failure(Trouble.SPOILT, "null_vector", "null", 200),
    "barred": Failure(Trouble.BARRED, "barred", "open", None, retry_in=3.0),
}
REFUSED = Failure(Trouble.REFUSED, "bad_request", "the input is bad", 400)


class ScriptedPort:
    """Answers as the script says; `crash` ends the run as a kill would: nothing more is taken in."""

    is_gone = False

    def __init__(self, script: list[str], poison: set[str], time: Time, asked: Counter[str]) -> None:
        self.arrivals: Any = Arrivals(time)
        self._script, self._poison, self._asked = script, poison, asked

    def submit(self, request: Request) -> None:
        step = self._script.pop(0) if self._script else "ok"
        if step == "crash":
            raise Cancelled
        found = FAULTS[step]
        if found is None and self._poison.intersection(request.texts):
            found = REFUSED
        if found is None:
            self._asked.update(request.texts)
            vectors = np.array([expected(text) for text in request.texts], dtype=np.float32)
            self.arrivals.put((request.number, Reply(vectors, None, None, "m", "call", Allowance(), ())))
        else:
            self.arrivals.put((request.number, found))

    def landed(self) -> None:
        pass

    def close(self) -> None:
        pass


def _run(texts: list[Any], folder: Path, script: list[str], poison: set[str], asked: Counter[str]) -> Any:
    """One run over the store: its rows, or None where it crashed."""
    time = Time(at=0.0)
    with Store(folder, SPACE) as store:
        intake = Intake(SPACE, Measure(Tokens(is_exact=False), None, 1e9, is_counted=False), store)
        lanes = [Lane(f"{name}/m", tier, 1.0, Limits(inputs), 3) for name, tier, inputs in (("a", 1, 5), ("b", 2, 3))]
        ledger = Ledger(store, notes_shortened=False, total=len(texts))
        source = open_source(texts, None, 8, keep_tables=False)
        machine, port = Machine(lanes, Rules(patience=1e6), 0.0), ScriptedPort(script, poison, time, asked)
        run = Run(
            source.pieces, intake, machine, store, port, ledger, Settings(), time, len(texts), lambda _: "declared:x",
            lambda _: None,
        )  # fmt: skip
        try:
            run.go()
        except Cancelled:
            return None
        matrix = ledger.fill(store, 8)
        from_store = np.empty((len(texts), 8), dtype=np.float32)
        store.read(ledger.places(), from_store)
        if matrix is not None:  # what was kept as it came is what was stored
            assert matrix.tobytes() == from_store.tobytes()
        return [None if np.isnan(row).any() else row.tolist() for row in from_store], ledger.errors


STEPS = st.sampled_from(["ok", "ok", "ok", *FAULTS, "crash"])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    numbers=st.lists(st.one_of(st.integers(0, 25), st.none()), min_size=1, max_size=40),
    poison=st.sets(st.integers(0, 25), max_size=3),
    script=st.lists(STEPS, max_size=60),
)
def test_any_order_of_faults_and_resumes_gives_the_same_map(
    numbers: list[int | None], poison: set[int], script: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    texts = [None if number is None else f"row {number}" for number in numbers]
    bad = {f"row {number}" for number in poison}
    folder, asked = tmp_path_factory.mktemp("store"), Counter[str]()
    found = None
    for _ in range(70):  # each crash uses up one step of the script
        found = _run(texts, folder, script, bad, asked)
        if found is not None:
            break
    assert found is not None
    rows, errors = found
    had_faults = any(step in ("500", "null", "503") for step in script)
    for row, text in enumerate(texts):
        if text is None or text in bad:
            assert rows[row] is None
            assert row in errors
        elif row not in errors:
            assert rows[row] == np.array(expected(text), dtype=np.float32).tolist()
        else:
            assert had_faults
    clean = _run(texts, folder, [], bad, asked)
    assert clean is not None
    assert clean[0] == [
        None if text is None or text in bad else np.array(expected(text), dtype=np.float32).tolist() for text in texts
    ]


def test_a_script_resumes_what_another_kind_of_client_began(tmp_path: Path) -> None:
    """The store belongs to the space, not to the process or the client."""
    provider = Provider()
    with Server(provider) as server:
        with shim.OpenAI(router=config(server)) as client:
            client.embed([f"row {number}" for number in range(1000)], store=tmp_path, limit_rows=500)
        process = _started(server, tmp_path)
        out, complaint = process.communicate(timeout=60)
    assert process.returncode == 0, complaint
    assert out.startswith(b"done 3000 500\n")
    assert max(provider.asked.values()) == 1


def test_items_are_small() -> None:
    """A million of them wait in memory at most a window at a time; no dictionary each."""
    assert not hasattr(Item(b"k", "t", 1), "__dict__")


def test_results_are_read_from_the_store_they_were_kept_in(tmp_path: Path) -> None:
    """Another run with `fresh` puts another store in its place, where other vectors lie at the same places."""
    texts = [f"row {number}" for number in range(50)]
    with Server(Provider()) as server, shim.OpenAI(router=config(server)) as client:
        client.embed(texts, store=tmp_path, progress=False)
        job = client.embed(texts, store=tmp_path, progress=False)
        other = client.embed(texts, store=tmp_path, progress=False)
        client.embed(texts[::-1], store=tmp_path, progress=False, fresh=True)
    assert job.vectors.tolist() == np.array([expected(text) for text in texts], dtype=np.float32).tolist()
    for folder in tmp_path.iterdir():
        upkeep.prune(folder)
    with pytest.raises(StoreError, match="the store was removed; run the job again"):
        _ = other.vectors
    assert list(tmp_path.iterdir()) == []
