"""Whether a caller left an attempt less time than its route needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from shim._run.bounds import was_rushed


@pytest.mark.parametrize(
    ("usual", "given", "patience", "is_rushed"),
    [
        pytest.param(None, 0.1, 30.0, False, id="nothing is known of the route"),
        pytest.param(2.0, 0.5, 30.0, True, id="less than it usually takes"),
        pytest.param(2.0, 3.0, 30.0, False, id="more than it usually takes"),
        pytest.param(2.0, 0.2, 0.2, False, id="all that the policy gives"),
        pytest.param(0.2, 0.2, 30.0, False, id="as much as it usually takes"),
    ],
)
@pytest.mark.parametrize("now", [0.0, 1.1, 29_313.417, 1_234_567.891])
def test_was_rushed(usual: float | None, given: float, patience: float, is_rushed: bool, now: float) -> None:
    """At any instant: what is left of a limit is a hair more or less than the limit."""
    health: Any = SimpleNamespace(percentile=lambda share: usual)
    running: Any = SimpleNamespace(
        until=now + given, started=now, slot=SimpleNamespace(route=SimpleNamespace(health=health))
    )
    assert was_rushed(running, patience) is is_rushed
