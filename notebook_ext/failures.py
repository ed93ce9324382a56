"""A cell that ends in an exhausted call shows its attempts in a few lines, in place of sixty lines of traceback."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType
from typing import Any

from notebook_ext import views
from shim.errors import AllProvidersFailedError

FULL = "%tb shows the full traceback."


def install(shell: Any) -> None:
    """Let IPython show our exception in short."""
    shell.set_custom_exc((AllProvidersFailedError,), show)


def remove(shell: Any) -> None:
    """Show it as any other again, unless somebody else has taken over since."""
    if AllProvidersFailedError in (shell.custom_exceptions or ()):
        shell.set_custom_exc((), None)


def show(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> list[str]:
    """What IPython calls. The exception stays in `sys.last_value`, so that `%tb` and `%debug` find it."""
    assert isinstance(error, AllProvidersFailedError)
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    lines = [f"{kind.__name__}: {views.of_error(error)}", "", f"{_place(shell, trace)}{FULL}"]
    shown = "\n".join(lines).split("\n")
    shell._showtraceback(kind, error, shown)
    return shown


def _place(shell: Any, trace: TracebackType | None) -> str:
    """The lines of the user's own cells that led to the call: `Cell In[3], line 2: client.chat...`; "" when unknown."""
    told = []
    for frame in traceback.extract_tb(trace):
        name = _cell_of(shell, frame.filename)
        if name:
            told.append(f"{name}, line {frame.lineno}: {(frame.line or '').strip()}\n")
    return "".join([*told[:1], *told[1:][-2:]])


def _cell_of(shell: Any, filename: str) -> str:
    try:
        found = shell.compile.format_code_name(filename)
    except Exception:  # noqa: BLE001  another version of IPython: the place is only a courtesy
        return ""
    return " ".join(found) if found else ""
