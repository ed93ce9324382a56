"""What `shim.testing` offers, and that asking for it is all it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from shim import testing


def test_the_names_are_these() -> None:
    assert testing.__all__ == [
        "Answer",
        "Asked",
        "Cassette",
        "CassetteError",
        "FakeClock",
        "FakeProvider",
        "Recording",
        "Said",
        "UnrecordedRequest",
        "UnusedRecordings",
        "answers",
        "faults",
        "router_over",
        "serve",
        "use_cassette",
    ]


@pytest.mark.parametrize("name", testing.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(testing, name).__doc__


def test_another_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'casette'"):
        testing.casette  # noqa: B018


def test_importing_it_imports_nothing_else() -> None:
    code = (
        "import sys, shim.testing; print(sorted(name for name in sys.modules if name[:4] in ('shim', 'vcr', 'open')))"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['shim', 'shim.testing']"
