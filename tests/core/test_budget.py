"""The budget of extra attempts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim._core.budget import Budget

HISTORIES = [
    ("it starts with its reserve", 0.2, 2.0, "www", [True, True, False]),
    ("five calls earn one retry at a fifth each", 0.2, 0.0, "wddddw" + "dw", [False, False, True]),
    ("deposits never fill it beyond its reserve", 0.5, 1.0, "ddddddww", [True, False]),
    ("without a reserve it holds one at most", 0.5, 0.0, "ddddddww", [True, False]),
    ("a refund gives the token back", 0.2, 1.0, "wrww", [True, True, False]),
    ("a refund never fills it beyond its reserve", 0.2, 1.0, "rrww", [True, False]),
    ("without a share nothing is earned", 0.0, 1.0, "wddddddw", [True, False]),
]


@pytest.mark.parametrize(
    ("share", "reserve", "history", "granted"), [h[1:] for h in HISTORIES], ids=[h[0] for h in HISTORIES]
)
def test_tokens(share: float, reserve: float, history: str, granted: list[bool]) -> None:
    """d: a first attempt is made, w: a further one is asked for, r: it was not made after all."""
    budget = Budget(share=share, reserve=reserve)
    answers = []
    for letter in history:
        match letter:
            case "d":
                budget.deposit()
            case "r":
                budget.refund()
            case _:
                answers.append(budget.withdraw())
    assert answers == granted


@given(st.floats(0, 1), st.integers(0, 20), st.lists(st.booleans(), max_size=200))
def test_extra_attempts_stay_within_reserve_and_share(share: float, reserve: int, calls: list[bool]) -> None:
    budget = Budget(share=share, reserve=reserve)
    granted = 0
    for made, asked in enumerate(calls, start=1):
        budget.deposit()
        granted += asked and budget.withdraw()
        assert granted <= reserve + share * made + 1e-6
        assert 0.0 <= budget.tokens <= max(reserve, 1.0)
