"""The two parts of the demonstration: the same sick routes one after the other, and in a race."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from shim import Attempt, OpenAI, Router
from shim.cli.demo_stage import FAMILY, Stage
from shim.cli.demo_texts import QUESTIONS, TEXTS
from shim.cli.demo_view import Watch
from shim.events import BreakerChanged

_BATCH = 12
_A_LITTLE = 0.05

Vectors = list[list[float]]


@dataclass(frozen=True, slots=True)
class Act:
    """What one part brought: vectors of the texts and of the questions, and how it came about. `slowest` is seconds."""

    router: Router
    attempts: list[Attempt]
    moves: list[BreakerChanged]
    vectors: Vectors
    questions: Vectors
    slowest: float


def in_sequence(stage: Stage, out: Console) -> Act:
    """Five batches of texts: two while both routes are sick, one past them, one after they came back, one with `busy`
    sick again, so that `slow` is tried and its breaker closes; then the questions."""
    router = stage.router("sequential")
    batches = [TEXTS[at : at + _BATCH] for at in range(0, len(TEXTS), _BATCH)]
    vectors: Vectors = []
    with Watch(router, out) as watch, OpenAI(router=router) as client:
        for batch in batches[:3]:
            vectors += _embed(client, batch)
        _wait_until_all_are_back(router)
        vectors += _embed(client, batches[3])
        stage.busy.ill.set()
        vectors += _embed(client, batches[4])
        questions = _embed(client, QUESTIONS)
        stage.busy.ill.clear()
    return _act(router, watch, vectors, questions)


def in_race(stage: Stage, out: Console) -> Act:
    """The same texts, two routes at a time, with `busy` and `slow` sick all along; at last all are well and race."""
    router = stage.router("race")
    half = len(TEXTS) // 2
    stage.busy.ill.set()
    stage.slow.ill.set()
    with Watch(router, out) as watch, OpenAI(router=router) as client:
        vectors = _embed(client, TEXTS[:half]) + _embed(client, TEXTS[half:])
        stage.busy.ill.clear()
        stage.slow.ill.clear()
        questions = _embed(client, QUESTIONS)
    return _act(router, watch, vectors, questions)


def _act(router: Router, watch: Watch, vectors: Vectors, questions: Vectors) -> Act:
    slowest = max(call.duration for call in router.calls)
    return Act(router, watch.attempts, watch.moves, vectors, questions, slowest)


def _embed(client: OpenAI, texts: Sequence[str]) -> Vectors:
    answer = client.embeddings.create(model=FAMILY, input=list(texts))
    return [list(row.embedding) for row in answer.data]


def _wait_until_all_are_back(router: Router) -> None:
    """Until no cooldown and no open breaker keeps a route out."""
    left = max(max(route.cooldown, route.open_for or 0.0) for route in router.status().routes)
    threading.Event().wait(left + _A_LITTLE)
