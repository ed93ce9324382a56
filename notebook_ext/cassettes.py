"""`%shim_record` and `%shim_replay`: a cassette for the cells that follow, until `off`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

_open: AbstractContextManager[Any] | None = None


def switch(line: str, mode: str) -> str:
    """Open the cassette that `line` names in a record mode, or close the one that is open with `off`; what was done.

    Raises ValueError without a path, ImportError where what cassettes need is not installed.
    """
    path = line.strip().strip("\"'")
    if not path:
        raise ValueError("say the path of a cassette, or `off`")
    was_open = close()
    if path == "off":
        return "the cassette is closed" if was_open else "no cassette was open"
    from importlib import import_module

    use_cassette = import_module("shim.testing").use_cassette
    made: AbstractContextManager[Any] = use_cassette(path, record=mode)
    made.__enter__()
    global _open
    _open = made
    does = "is recorded to" if mode != "none" else "is answered from"
    return f"what goes to providers {does} {path}, until `%shim_{'replay' if mode == 'none' else 'record'} off`"


def close() -> bool:
    """Close the cassette that is open; False when none was."""
    global _open
    made, _open = _open, None
    if made is None:
        return False
    made.__exit__(None, None, None)
    return True
