"""The feed's thread: newest state, never a backlog, at most so often, and gone when nobody is left."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from notebook_ext.feed import Feed
from notebook_ext.watch import BOX, Watch
from shim import Router
from tests.notebook import scene

PATIENCE = 5.0


class Face:
    """Counts, and says when something came."""

    def __init__(self, act: Callable[[], None] = lambda: None, every: float = 0.0) -> None:
        self.every = every
        self.refreshed = 0
        self.beats = 0
        self.came = threading.Event()
        self._act = act

    def refresh(self) -> None:
        self.refreshed += 1
        self.came.set()
        self._act()

    def beat(self) -> None:
        self.beats += 1
        self.came.set()

    def wait(self) -> None:
        assert self.came.wait(PATIENCE)
        self.came.clear()


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed(gap=0.01, beat=0.05)
    yield made
    made.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "notebook_ext-feed"]


def test_news_reach_a_face_and_a_quiet_time_brings_beats(feed: Feed) -> None:
    face = Face()
    feed.join(face)
    face.wait()
    assert face.refreshed == 1
    face.wait()
    assert face.beats >= 1

    feed.notice()
    while face.refreshed < 2:
        face.wait()


def test_a_flood_is_told_a_few_times(feed: Feed) -> None:
    """Whatever the number of events, what is shown in the end is the last of them."""
    numbers: list[int] = []
    news: list[int] = []
    face = Face(lambda: numbers.append(len(news)))
    feed.join(face)
    face.wait()
    for number in range(20_000):
        news.append(number)
        feed.notice()
    while not numbers or numbers[-1] != 20_000:
        face.wait()

    assert len(numbers) < 500


def test_a_slower_face_gets_the_last_state_too(feed: Feed) -> None:
    fast, slow = Face(), Face(every=0.05)
    feed.join(slow)
    feed.join(fast)
    for _ in range(10):
        feed.notice()
        fast.wait()
    seen = slow.refreshed
    slow.came.clear()
    feed.notice()
    slow.wait()

    assert slow.refreshed > seen or slow.refreshed >= 2
    assert slow.refreshed <= fast.refreshed


def test_a_face_that_raises_is_logged_once_and_the_others_go_on(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise RuntimeError("a broken panel")

    bad, good = Face(broken), Face()
    feed.join(bad)
    feed.join(good)
    for _ in range(5):
        feed.notice()
        good.wait()
    while bad.refreshed < 2:
        feed.notice()
        bad.wait()

    assert caplog.text.count("RuntimeError: a broken panel") == 1


def test_the_thread_ends_with_the_last_face_and_begins_again_with_the_next(feed: Feed) -> None:
    one, two = Face(), Face()
    assert not feed.is_running
    feed.join(one)
    feed.join(one)
    feed.join(two)
    feed.leave(one)
    assert feed.is_running
    feed.leave(two)
    assert not feed.is_running
    feed.leave(two)
    feed.join(one)
    one.wait()
    assert feed.is_running


def test_a_face_may_leave_while_it_is_told(feed: Feed) -> None:
    face = Face(lambda: feed.leave(face))
    feed.join(face)
    face.wait()
    for thread in threading.enumerate():
        if thread.name == "notebook_ext-feed":
            thread.join(PATIENCE)

    assert not feed.is_running


# -- watching a router


def test_events_of_many_threads_are_all_counted() -> None:
    router = Router(scene.CONFIGURATION)
    watch = Watch(router, lambda: None)
    told = scene.finished(scene.failure("lab/bge-m3", scene.Verdict.TRANSIENT, "timeout", "timeout", None))
    threads = [threading.Thread(target=lambda: [watch(told) for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert watch.snapshot().troubles[0].count == 4000


def test_what_nobody_reads_does_not_pile_up() -> None:
    watch = Watch(Router(scene.CONFIGURATION), lambda: None)
    told = scene.finished(scene.attempt("lab/bge-m3", scene.Verdict.FATAL, reason="bad_request"))
    for _ in range(BOX + 5000):
        watch(told)

    assert watch.snapshot().troubles[0].count == BOX


def test_a_closed_watch_hears_nothing(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    router = Router(scene.CONFIGURATION)
    heard: list[int] = []
    watch = Watch(router, lambda: heard.append(1))
    router.disable("lab")
    watch.close()
    watch.close()
    router.enable("lab")

    assert heard == [1]
    assert watch.snapshot().seq == 1
