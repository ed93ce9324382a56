"""Names the file that an output grows in until it is whole, and removes those that killed jobs left."""

from __future__ import annotations

import glob
import os
import platform
import uuid
from pathlib import Path


def partial_of(target: Path) -> Path:
    """Where a file is written until it is whole: two jobs may write the same one. What dead ones left is removed."""
    mine = f".{target.name}.{platform.node() or 'here'}-"
    for left in target.parent.glob(f"{glob.escape(mine)}*.partial"):
        number = left.name.removeprefix(mine).partition("-")[0]
        if number.isdecimal() and not _is_running(int(number)):
            left.unlink(missing_ok=True)
    return target.with_name(f"{mine}{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere to ask is to kill
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
