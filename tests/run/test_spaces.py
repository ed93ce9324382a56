"""One vector space for all processes that share a cache folder, and space checks that end with their calls."""

from __future__ import annotations

import asyncio
import errno
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, cast

import pytest

import shim
from shim._core import space
from shim._core.outcome import Judgement
from shim._core.plan import Slot
from shim._core.request import Headers, Raw, Request
from shim._core.space import Reading
from shim._run import aio, references, screening, sync
from shim._run.board import Board
from shim._run.exchange import Exchange, Pause, Together
from shim._run.flight import Flight, Options
from shim._run.reference_files import Space
from shim._run.references import References
from shim.events import Kind, Scope, Verdict
from shim.testing import FakeClock
from tests.support import answers
from tests.support.answers import vector
from tests.support.faces import FAMILY, MODEL, Face, configuration
from tests.support.fixtures import Serve
from tests.support.server import PATIENCE, Peer, Script, Seen

ROOT = Path(__file__).resolve().parents[2]
KEY = "words native any"
CHECKED: dict[str, object] = {"space_check": True}


def reading(salt: str = "") -> Reading:
    rows = tuple(tuple(vector(text, 8, salt)) for text in space.PROBES)
    return Reading(rows, rows, None)


def claimed(kept: References, endpoint: str, salt: str = "") -> Space:
    while (found := kept.claim(KEY, endpoint, reading(salt))) is None:
        continue  # another one is writing at this moment
    return found


def on_disk(folder: Path) -> Space:
    """The space as a process that starts now finds it."""
    fresh = References(folder)
    fresh.load(KEY)
    found = fresh.space(KEY)
    assert found is not None
    return found


# -- the files


def test_a_space_that_another_process_sets_later_is_found(tmp_path: Path) -> None:
    """A look that found nothing is not remembered."""
    early, late = References(tmp_path), References(tmp_path)
    early.load(KEY)
    assert early.space(KEY) is None
    claimed(late, "a")
    early.load(KEY)
    found = early.space(KEY)
    assert found is not None
    assert found.set_by == "a"


def test_who_comes_second_gets_the_space_of_the_first(tmp_path: Path) -> None:
    first, second = References(tmp_path), References(tmp_path)
    assert claimed(first, "a", "one").set_by == "a"
    theirs = claimed(second, "b", "other")
    assert (theirs.set_by, theirs.members) == ("a", {"a": 0.0})
    assert on_disk(tmp_path).set_by == "a"
    assert second.space(KEY) is theirs


ONE, OTHER, MOVED = "http://one/v1 m", "http://other/v1 m", "http://one-moved/v1 m"


@pytest.mark.parametrize(
    ("homes", "salt", "set_by"),
    [
        pytest.param([ONE, OTHER], "", ONE, id="the same routes"),
        pytest.param([OTHER, ONE], "", ONE, id="in another order"),
        pytest.param(
            ["http://a-new/v1 m", ONE], "other", ONE, id="a route more: its vectors are compared with the kept"
        ),
        pytest.param([OTHER], "", ONE, id="one that has joined is left"),
        pytest.param([MOVED], "", ONE, id="the same vectors at another address"),
        pytest.param([MOVED], "other", MOVED, id="another project's family of this name"),
    ],
)
def test_which_reference_a_configuration_finds(tmp_path: Path, homes: list[str], salt: str, set_by: str) -> None:
    earlier = References(tmp_path, {"words": [ONE, OTHER]})
    claimed(earlier, ONE)
    earlier.join(KEY, OTHER, 0.01)
    earlier.save(KEY)

    kept = References(tmp_path, {"words": homes})
    kept.load(KEY)
    found = kept.space(KEY) or kept.inherit(KEY, reading(salt)) or claimed(kept, homes[0], salt)

    assert found.set_by == set_by
    again = References(tmp_path, {"words": homes})
    again.load(KEY)
    theirs = again.space(KEY)
    assert theirs is not None
    assert space.fingerprint(theirs.reading) == space.fingerprint(found.reading)
    earlier.load(KEY)
    mine = earlier.space(KEY)
    assert mine is not None
    assert mine.set_by == ONE


def test_what_a_changing_port_leaves_behind_is_bounded(tmp_path: Path) -> None:
    for port in range(40):
        kept = References(tmp_path, {"words": [f"http://127.0.0.1:{port}/v1 m"]})
        assert kept.inherit(KEY, reading(str(port))) is None
        claimed(kept, f"http://127.0.0.1:{port}/v1 m", str(port))
    assert 30 < len(list(tmp_path.glob("*.json"))) < 36


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "no hard links here")


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
@pytest.mark.parametrize("damaged", [True, False], ids=["over a damaged file", "from nothing"])
def test_of_many_at_once_one_sets_the_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool, damaged: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    if damaged:
        spoil(tmp_path)
    everyone = threading.Barrier(8)

    def start(number: int) -> str:
        kept = References(tmp_path)
        everyone.wait(PATIENCE)
        return claimed(kept, f"route {number}", f"space {number}").set_by

    with ThreadPoolExecutor(8) as threads:
        setters = set(threads.map(start, range(8)))

    assert setters == {on_disk(tmp_path).set_by}
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def spoil(folder: Path) -> Path:
    """A file of this space that holds none."""
    claimed(References(folder), "old")
    (path,) = folder.glob("*.json")
    path.write_bytes(path.read_bytes()[:100])
    return path


def test_a_damaged_file_is_told_and_taken_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = spoil(tmp_path)
    kept = References(tmp_path)
    kept.load(KEY)
    assert kept.space(KEY) is None
    assert str(path) in caplog.text
    assert claimed(kept, "a").set_by == "a"
    assert on_disk(tmp_path).set_by == "a"


def test_a_lock_that_a_killed_process_left_does_not_hold_for_ever(tmp_path: Path) -> None:
    lock = spoil(tmp_path).with_suffix(".lock")
    lock.touch()
    kept = References(tmp_path)
    assert kept.claim(KEY, "a", reading()) is None
    assert kept.space(KEY) is None
    os.utime(lock, (lock.stat().st_mtime - 120,) * 2)
    assert kept.claim(KEY, "a", reading()) is not None
    assert not lock.exists()


def test_members_of_several_processes_are_kept_together(tmp_path: Path) -> None:
    one, other = References(tmp_path), References(tmp_path)
    claimed(one, "a")
    other.load(KEY)
    one.join(KEY, "b", 0.01)
    one.save(KEY)
    other.join(KEY, "c", 0.02)
    other.save(KEY)
    assert on_disk(tmp_path).members == {"a": 0.0, "b": 0.01, "c": 0.02}
    found = other.space(KEY)
    assert found is not None
    assert set(found.members) == {"a", "b", "c"}


@pytest.mark.parametrize("seen", [True, False], ids=["before the save", "at the save"])
def test_saving_never_writes_over_the_space_of_another(tmp_path: Path, seen: bool) -> None:
    """The folder was emptied and another process has set a space since."""
    one, other = References(tmp_path), References(tmp_path)
    claimed(one, "a", "one")
    next(tmp_path.glob("*.json")).unlink()
    claimed(other, "b", "other")
    if seen:
        one.load(KEY)
    one.join(KEY, "c", 0.01)
    one.save(KEY)
    kept, held = on_disk(tmp_path), one.space(KEY)
    assert held is not None
    assert kept.set_by == held.set_by == "b"
    assert "a" not in kept.members


def test_saving_gives_way_to_who_was_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one comes between the look at the emptied folder and the writing."""
    one, other = References(tmp_path), References(tmp_path)
    claimed(one, "a", "one")
    next(tmp_path.glob("*.json")).unlink()
    encoded = references.encoded

    def late(key: str, known: Space) -> bytes:
        monkeypatch.setattr(references, "encoded", encoded)
        claimed(other, "b", "other")
        return encoded(key, known)

    monkeypatch.setattr(references, "encoded", late)
    one.save(KEY)
    held = one.space(KEY)
    assert held is not None
    assert held.set_by == on_disk(tmp_path).set_by == "b"


def test_a_space_whose_file_was_removed_is_kept_again(tmp_path: Path) -> None:
    kept = References(tmp_path)
    claimed(kept, "a")
    next(tmp_path.glob("*.json")).unlink()
    kept.join(KEY, "b", 0.01)
    kept.save(KEY)
    assert on_disk(tmp_path).members == {"a": 0.0, "b": 0.01}


def test_the_space_lasts_for_the_process_where_nothing_can_be_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    kept = References(tmp_path / "file" / "spaces")
    assert claimed(kept, "a").set_by == "a"
    assert claimed(kept, "b", "other").set_by == "a"
    assert "last for this process" in caplog.text


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_other_users_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        claimed(References(tmp_path), "a")
    finally:
        os.umask(before)
    assert next(tmp_path.glob("*.json")).stat().st_mode & 0o777 == 0o644


# -- two processes

CHILD = f"""
import json, sys, shim
client = shim.OpenAI(router=json.loads(sys.argv[1]))
for _ in sys.stdin:
    client.router.reset()
    try:
        told = client.embeddings.create(model={MODEL!r}, input=["a"]).data[0].embedding
    except shim.AllProvidersFailedError as error:
        told = str(error)
    print(json.dumps(told), flush=True)
"""


class Process:
    """A Python of its own that embeds one text whenever it is told to."""

    def __init__(self, config: dict[str, Any], cache: Path) -> None:
        environment = {**os.environ, "SHIM_CACHE_DIR": str(cache), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", CHILD, json.dumps(config)]
        self._child = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()

    def told(self) -> Any:
        assert self._child.stdout is not None
        return json.loads(self._child.stdout.readline())

    def embed(self) -> Any:
        self.ask()
        return self.told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate("", timeout=PATIENCE)


def embeds(
    salt: str, is_dead: Callable[[], bool] = lambda: False, hold: Callable[[Seen], None] = lambda _: None
) -> Script:
    def script(request: Seen, peer: Peer) -> None:
        hold(request)
        if is_dead():
            peer.answer(503, answers.error())
        else:
            peer.answer(200, answers.embeddings(request, 16, salt))

    return script


def test_a_process_whose_first_call_failed_keeps_to_the_space_of_another(serve: Serve, tmp_path: Path) -> None:
    """It looked for the reference before there was one."""
    dead = {"a", "b"}
    first = serve(embeds("one", lambda: "a" in dead))
    second = serve(embeds("other", lambda: "b" in dead))
    config = configuration("embedding", first, second, policy=CHECKED)
    with Process(config, tmp_path) as early, Process(config, tmp_path) as late:
        assert "failed" in early.embed()
        dead.clear()
        mine = late.embed()
        assert isinstance(mine, list)
        dead.add("a")
        assert "another vector space" in early.embed()
        dead.clear()
        assert early.embed() == mine


def test_two_processes_that_set_the_space_at_once_end_in_one(serve: Serve, tmp_path: Path) -> None:
    """Each prefers another route, and both have all their probes when either may write."""
    both, over = threading.Barrier(2), threading.Event()

    def hold(request: Seen) -> None:
        if request.json["input"] == [space.LONG_PROBE] and not over.is_set():
            both.wait(PATIENCE)
            over.set()

    servers = serve(embeds("one", hold=hold)), serve(embeds("other", hold=hold))
    configs = [
        configuration("embedding", *servers, policy=CHECKED, routes=routes)
        for routes in (["a/m-a", "b/m-b"], ["b/m-b", "a/m-a"])
    ]
    with Process(configs[0], tmp_path) as one, Process(configs[1], tmp_path) as other:
        one.ask()
        other.ask()
        vectors = one.told(), other.told()
    assert over.is_set()
    assert isinstance(vectors[0], list)
    assert vectors[0] == vectors[1]


def test_the_disk_is_not_touched_with_the_lock_held(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIM_CACHE_DIR", str(tmp_path))
    client = shim.OpenAI(
        router=configuration(
            "embedding", *(serve(embeds("")) for _ in range(2)), policy={**CHECKED, "order": "round_robin"}
        )
    )
    board = client.router._board  # type: ignore[union-attr]
    seen = set()

    def watched(name: str) -> Callable[..., Any]:
        inner = getattr(References, name)

        def call(self: References, *arguments: Any) -> Any:
            assert not board.lock.locked()
            seen.add(name)
            return inner(self, *arguments)

        return call

    for name in ("load", "claim", "save"):
        monkeypatch.setattr(References, name, watched(name))
    for _ in range(2):
        client.embeddings.create(model=MODEL, input=["a"])
    client.close()
    assert seen == {"load", "claim", "save"}


# -- checks under way


def unsent(*_: object) -> Any:
    raise AssertionError("nothing is to be sent")


class Desk:
    """A board of two routes and the screenings that calls do on it, step by step."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        config = configuration("embedding", "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1", policy=CHECKED)
        self.board: Board = shim.Router(config, clock=self.clock)._board

    def slots(self) -> list[Slot]:
        return Flight(self.board, self._request(), self.board.families[FAMILY].config, Options())._plan.slots

    def screening(self, route: int = 0, seconds: float = 30.0) -> Generator[Any, Any, Any]:
        probing = screening.Probing(
            self.board, self.slots()[route], self._request(), self.clock.now() + seconds, 5.0, unsent, unsent
        )
        return screening.screen(probing)

    @staticmethod
    def _request() -> Request:
        fields = {"input": Raw(b'["a"]')}
        return Request(
            "POST", "/embeddings", "/embeddings", Kind.EMBEDDING, Headers(), b"", fields=fields, model=FAMILY
        )


def test_another_call_waits_for_a_third_of_its_time_and_then_goes_elsewhere() -> None:
    desk = Desk()
    busy = desk.screening()
    assert isinstance(next(busy), Together)
    started, send = desk.clock.now(), cast("Any", unsent)
    judgement = sync.carry_out(desk.screening(seconds=30.0), send, desk.clock)
    assert isinstance(judgement, Judgement)
    assert desk.clock.now() - started == pytest.approx(10.0, abs=0.1)
    assert (judgement.verdict, judgement.scope) == (Verdict.TRANSIENT, Scope.REQUEST)
    assert (judgement.reason, judgement.counts, judgement.cooldown) == ("space check under way", False, None)
    busy.close()


def test_another_route_is_checked_meanwhile() -> None:
    desk = Desk()
    busy, other = desk.screening(0), desk.screening(1)
    assert isinstance(next(busy), Together)
    assert isinstance(next(other), Together)
    assert len(desk.board.screenings) == 2
    busy.close()
    other.close()
    assert desk.board.screenings == {}


def test_a_check_that_was_given_up_is_done_by_the_next_call() -> None:
    desk = Desk()
    busy, waiting = desk.screening(), desk.screening()
    assert isinstance(next(busy), Together)
    assert isinstance(next(waiting), Pause)
    busy.close()
    assert isinstance(next(waiting), Together)
    waiting.close()


def test_a_check_that_nobody_ended_lasts_no_longer_than_its_attempt() -> None:
    """A task of an event loop that stopped, for one; when it ends after all, the newer check stays under way."""
    desk = Desk()
    lost = desk.screening(seconds=30.0)
    assert isinstance(next(lost), Together)
    desk.clock.wait(30.0)
    newer = desk.screening()
    assert isinstance(next(newer), Together)
    lost.close()
    assert isinstance(next(desk.screening()), Pause)
    newer.close()


def script(ended: list[str]) -> Generator[Exchange | Together | Pause, object, Any]:
    try:
        yield Together([])
        yield Pause(0.0)
    finally:
        ended.append("closed")


class Interrupted(FakeClock):
    def wait(self, seconds: float) -> None:
        raise KeyboardInterrupt

    async def async_wait(self, seconds: float) -> None:
        raise asyncio.CancelledError


def test_a_kept_traceback_does_not_hold_a_script_open() -> None:
    ended: list[str] = []
    with pytest.raises(KeyboardInterrupt) as kept:
        sync.carry_out(script(ended), cast("Any", unsent), Interrupted())
    assert (ended, kept.type) == (["closed"], KeyboardInterrupt)


async def test_a_kept_traceback_does_not_hold_an_async_script_open() -> None:
    ended: list[str] = []
    with pytest.raises(asyncio.CancelledError) as kept:
        await aio.carry_out(script(ended), cast("Any", unsent), Interrupted())
    assert (ended, kept.type) == (["closed"], asyncio.CancelledError)


async def test_a_cancelled_check_is_done_by_the_next_call_while_its_error_is_kept(serve: Serve) -> None:
    stuck = True

    def hangs_at_first(request: Seen, peer: Peer) -> None:
        if stuck:
            peer.hang()
        else:
            peer.answer(200, answers.embeddings(request))

    server = serve(hangs_at_first)
    face = Face(True)
    client = face.client(configuration("embedding", server, serve(answers.embeds()), policy=CHECKED))
    task = asyncio.ensure_future(client.embeddings.create(model=MODEL, input=["a"]))
    assert await asyncio.to_thread(server.wait_for_requests, 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as kept:
        await task
    assert client.router._board.screenings == {}
    stuck = False
    made = shim.attempts(await client.embeddings.create(model=MODEL, input=["a"]))
    assert [attempt.provider for attempt in made] == ["a"] * len(made)
    assert len(client.router.spaces()) == 1
    assert kept.value is not None
    await face.close()


async def test_a_check_that_hangs_costs_other_calls_a_part_of_their_time(serve: Serve) -> None:
    """The call that waits goes on to the next route, and the route that it waited for is not benched by that."""
    first, second = serve(answers.hangs()), serve(answers.embeds())
    face = Face(True)
    client = face.client(configuration("embedding", first, second, policy=CHECKED))
    busy = asyncio.ensure_future(client.embeddings.create(model=MODEL, input=["a"], timeout=60))
    assert await asyncio.to_thread(first.wait_for_requests, 1)
    made = shim.attempts(await client.embeddings.create(model=MODEL, input=["a"], timeout=3))
    waited = next(attempt for attempt in made if attempt.provider == "a")
    assert (waited.verdict, waited.reason) == (Verdict.TRANSIENT, "space check under way")
    assert waited.duration < 1.0
    assert made[-1].provider == "b"
    health = client.router._board.families[FAMILY].routes[0].health
    assert health.cooldown.until == 0.0
    busy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await busy
    await face.close()


async def test_nothing_is_served_before_the_check_is_over(serve: Serve) -> None:
    """Many first calls at once: a route whose check may still fail could be in another space than the next one."""
    server, face = serve(answers.embeds()), Face(True)
    client = face.client(configuration("embedding", server, serve(answers.embeds()), policy=CHECKED))
    await asyncio.gather(*(client.embeddings.create(model=MODEL, input=["a"]) for _ in range(5)))
    asked = [request.json["input"] for request in server.seen]
    assert asked.index(["a"]) > asked.index([space.LONG_PROBE])
    assert asked.count([space.LONG_PROBE]) == 1
    assert asked.count(["a"]) == 5
    await face.close()


# -- forks


def _in_child(board: Board, results: Any) -> None:
    results.put((dict(board.screenings), board.lock.acquire(blocking=False)))


@pytest.fixture
def forks() -> Any:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("this platform does not fork")
    return multiprocessing.get_context("fork")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_inherits_no_check_and_no_held_lock(forks: Any) -> None:
    desk = Desk()
    busy = desk.screening()
    assert isinstance(next(busy), Together)
    results = forks.SimpleQueue()
    child = forks.Process(target=_in_child, args=(desk.board, results))
    with desk.board.lock:
        child.start()
    assert results.get() == ({}, True)
    child.join(PATIENCE)
    assert len(desk.board.screenings) == 1
    busy.close()
