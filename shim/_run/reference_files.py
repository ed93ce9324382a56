"""One reference space in one file: whole or not there, made by the first of several processes.

A file is written beside its place and linked to its name, which only one can do; where links cannot be made, or a
damaged file has the name, a lock file decides.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from shim._core import space
from shim._core.space import Reading

_STALE = 60.0  # seconds after which a lock file is one that a process left behind when it was killed

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Space:
    """One vector space as it was first seen: who set it, its probe vectors, and who was found to be in it."""

    set_by: str
    reading: Reading
    members: dict[str, float] = field(default_factory=dict)
    """Endpoint -> noise over separation, for those that were accepted; 0 for the one that set the space."""


class SpaceFile(msgspec.Struct):
    key: str
    set_by: str
    reading: str
    members: dict[str, float]


def readable(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)[:80]


def encoded(key: str, known: Space) -> bytes:
    members = dict(known.members)  # a copy: another thread may add to it
    return msgspec.json.encode(SpaceFile(key, known.set_by, space.dump(known.reading).decode(), members))


def decoded(content: bytes) -> Space:
    kept = msgspec.json.decode(content, type=SpaceFile)
    return Space(kept.set_by, space.load(kept.reading.encode()), kept.members)


def is_same(one: Space, other: Space) -> bool:
    return one.set_by == other.set_by and space.dump(one.reading) == space.dump(other.reading)


def stamp_of(path: Path) -> Stamp | None:
    """What changes when a file is written anew; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_space(path: Path) -> Space | None:
    """The space in a file; None where there is no file or no space in it. Raises OSError where it may not be read."""
    try:
        return decoded(path.read_bytes())
    except (FileNotFoundError, ValueError, msgspec.MsgspecError):
        return None


@contextlib.contextmanager
def written(path: Path, content: bytes) -> Iterator[Path]:
    """A whole file beside `path`, readable by whom the umask allows; it is gone afterwards."""
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.new")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            file.write(content)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def linked(temporary: Path, path: Path) -> bool:
    """Whether the file got the name: only the first one does, whichever process asks."""
    try:
        os.link(temporary, path)
    except OSError:
        return False  # it is there already, or this file system has no hard links
    return True


def mended(temporary: Path, path: Path) -> bool:
    """As `_linked`, where a damaged file has the name or links cannot be made: for whoever makes the lock file."""
    lock = path.with_suffix(".lock")
    left_at = stamp_of(lock)
    if left_at is not None and temporary.stat().st_mtime - left_at[0] / 1e9 > _STALE:
        lock.unlink(missing_ok=True)
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    try:
        if read_space(path) is not None:
            return False
        temporary.replace(path)
        return True
    finally:
        lock.unlink(missing_ok=True)
