"""Every scripted fault case against a real scripted server on loopback: sync and async, on both HTTP libraries."""

from __future__ import annotations

import functools
import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases.adapter import make_client, make_dataset_client
from tests.shared_data import cases_dir

FOLDER = cases_dir()
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))

import runner  # noqa: E402  found through the line above

DATASET = "embed_dataset"

# The runner drops its async clients without closing them, as users do: asyncio then complains of their transports.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def _scripted(*, datasets: bool) -> list[dict[str, Any]]:
    cases = json.loads((FOLDER / "cases.json").read_text())["cases"]
    scripted = [case for case in cases if case.get("script")]
    return [case for case in scripted if (case["script"]["call"].get("api") == DATASET) is datasets]


def _is_cancelled(case: dict[str, Any]) -> bool:
    call = case["script"]["call"]
    return any("cancel_after_s" in step for step in [call, *(call.get("steps") or [])])


def _has_steps(case: dict[str, Any]) -> bool:
    call = case["script"]["call"]
    return bool(call.get("steps")) or int(call.get("times", 1)) > 1


CASES = _scripted(datasets=False)
DATASET_CASES = _scripted(datasets=True)


def _params() -> list[Any]:
    made = []
    for case in CASES:
        for kind in ("sync", "async"):
            for library in ("sdk", "httpx"):
                if kind == "sync" and _is_cancelled(case):
                    continue  # a blocking call cannot be cancelled from outside
                if (kind, library) == ("async", "httpx") and _has_steps(case):
                    continue  # each step has an event loop of its own, and a caller's client belongs to one loop
                made.append(pytest.param(case, kind, library, id=f"{case['id']}-{kind}-{library}"))
    return made


@pytest.fixture(autouse=True)
def _collect(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a case left behind is collected here, where its warnings are expected, and not in some later test."""
    yield
    caplog.get_records("call").clear()  # openai logs errors with their tracebacks, and those hold the client
    gc.collect()


def test_all_scripted_cases_are_here() -> None:
    """The cases of the reference data: none is lost by the selection above."""
    assert len(CASES) == 85
    assert len(DATASET_CASES) == 8


@pytest.mark.parametrize(("case", "kind", "library"), _params())
def test_case(case: dict[str, Any], kind: str, library: str) -> None:
    """What must come out comes out."""
    factory = functools.partial(make_client, flavour=httpx if library == "httpx" else None)

    failures, _ = runner.run_case(case, factory, kind=kind)

    assert failures == []


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("case", DATASET_CASES, ids=lambda case: case["id"])
def test_dataset_case(case: dict[str, Any], is_async: bool, tmp_path: Path) -> None:
    """What must come out of a whole dataset comes out."""
    factory = functools.partial(make_dataset_client, store=str(tmp_path), is_async=is_async)

    failures, _ = runner.run_case(case, factory, kind="sync")

    assert failures == []
