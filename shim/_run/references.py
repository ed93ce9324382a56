"""Keeps the reference vectors of embedding spaces, in memory and on disk, and which endpoints were found in each space.

One small JSON file for each family, length and input type, shared by all processes that have the folder. It is made by
linking a whole file to its name, which only the first of several can do; who comes later takes what is there. A file
that cannot be read or written costs a new reference, never a call.

Another project may have a family of the same name: where its first endpoint in the alphabet is another, it has a file
of its own. That begins as what is kept already, if one of its routes is in that or it is the same space at another
address.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar
from weakref import WeakKeyDictionary

import msgspec

from shim._core import space
from shim._core.space import Reading
from shim._core.space_probes import FINGERPRINT

log = logging.getLogger("shim")

_MOST_KEPT = 32
"""Files of one space: a server on a port that changes leaves one for each."""
_STALE = 60.0  # seconds after which a lock file is one that a process left behind when it was killed

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class Space:
    """One vector space as it was first seen: who set it, its probe vectors, and who was found to be in it."""

    set_by: str
    reading: Reading
    members: dict[str, float] = field(default_factory=dict)
    """Endpoint -> noise over separation, for those that were accepted; 0 for the one that set the space."""


class _File(msgspec.Struct):
    key: str
    set_by: str
    reading: str
    members: dict[str, float]


class Apart:
    """Whether what happens here is to have references of its own, from nothing and in memory.

    `within` tells inside of what: while a cassette is open, all that its calls ask for must be in it, whatever this
    machine has seen before; and nothing of it is for other calls.
    """

    within: ClassVar[Callable[[], object | None]] = staticmethod(lambda: None)


class References:
    """`folder` None keeps all in memory. `homes` names the endpoints of each family's routes. All but
    `known`, `space` and `join` touch the disk: never with a lock held."""

    def __init__(self, folder: Path | None, homes: Mapping[str, Sequence[str]] | None = None) -> None:
        self._folder = folder
        self._homes = homes or {}
        self._own: dict[str, Space] = {}
        self._apart: WeakKeyDictionary[object, dict[str, Space]] = WeakKeyDictionary()
        self._stamps: dict[str, Stamp] = {}  # of the files as they were last read or written here

    @property
    def folder(self) -> Path | None:
        return self._folder if Apart.within() is None else None

    @property
    def _spaces(self) -> dict[str, Space]:
        within = Apart.within()
        return self._own if within is None else self._apart.setdefault(within, {})

    def load(self, key: str) -> None:
        """Take over what other processes have kept of a space since the last look. A file that is not there, or was
        not, is looked for again the next time."""
        path = self.path(key)
        stamp = None if path is None else _stamp_of(path)
        if stamp is None and key not in self._spaces:
            self.inherit(key, None)
        if path is None or stamp is None or stamp == self._stamps.get(key):
            return
        try:
            kept = _read(path)
        except OSError as error:
            log.warning("the reference vectors in %s cannot be read (%s)", path, error)
            return
        self._stamps[key] = stamp
        if kept is None:
            log.warning("the reference vectors in %s are damaged: they will be taken anew", path)
            return
        self._adopt(key, kept)

    def load_all(self) -> None:
        """Read every space that is kept."""
        for path in sorted(self.folder.glob("*.json")) if self.folder is not None else ():
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                self.load(msgspec.json.decode(path.read_bytes(), type=_File).key)

    def exported(self, family: str) -> dict[str, bytes]:
        """The spaces of a family, by key, as another machine can `take_over`."""
        self.load_all()
        return {key: _encoded(key, known) for key, known in self._spaces.items() if key.startswith(f"{family} ")}

    def take_over(self, exported: Mapping[str, bytes]) -> list[str]:
        """Hold by another machine's spaces from now on; a space that is known here already stays.

        Gives a message for each that is known here as another space: its vectors and theirs do not belong together.
        """
        problems = []
        for key, content in exported.items():
            theirs = _decoded(content)
            self.load(key)
            known = self._spaces.get(key) or self.claim(key, theirs.set_by, theirs.reading)
            if known is None or _is_same(known, theirs):
                continue
            found = space.compare(theirs.reading, known.reading)
            if found.ruling is space.Ruling.REFUSE:
                problems.append(
                    f"space {key!r}, set here by {known.set_by} and there by {theirs.set_by}: {found.message}"
                )
        return problems

    def known(self) -> dict[str, Space]:
        """The spaces in memory, by key."""
        return dict(self._spaces)

    def space(self, key: str) -> Space | None:
        """The space of this key, None while no route has set it."""
        return self._spaces.get(key)

    def inherit(self, key: str, reading: Reading | None) -> Space | None:
        """What other configurations have kept of this space, from now on ours too; None where there is nothing that
        has a route of ours in it or holds the vectors of `reading`."""
        found = next((one for one in self._others(key) if self._is_ours(key, one, reading)), None)
        if found is None:
            return None
        kept = self._created(key, found)
        return None if kept is None else self._spaces.setdefault(key, kept)

    def claim(self, key: str, endpoint: str, reading: Reading) -> Space | None:
        """A route has given its probe vectors and no space is known: the space that holds from now on.

        `set_by` tells whether it is this route's or another's who came first, in this process or any other. None while
        another process is mending a damaged file: ask again.
        """
        mine = Space(endpoint, reading, {endpoint: 0.0})
        kept = self._created(key, mine)
        return None if kept is None else self._spaces.setdefault(key, kept)

    def join(self, key: str, endpoint: str, noise: float) -> None:
        """Another route was found to be in the space."""
        known = self._spaces.get(key)
        if known is not None:
            known.members.setdefault(endpoint, noise)

    def save(self, key: str) -> None:
        """Keep on disk who has joined, beside those who joined in other processes."""
        self.load(key)
        path, known = self.path(key), self._spaces.get(key)
        if path is None or known is None:
            return
        if _stamp_of(path) is None:  # removed meanwhile: whoever is first sets it
            kept = self._created(key, known)
            if kept is not None and kept is not known:
                self._adopt(key, kept)
            return
        try:
            with _written(path, _encoded(key, known)) as temporary:
                stamp = _stamp_of(temporary)
                temporary.replace(path)
            self._seen(key, stamp)
        except OSError as error:
            log.warning("the reference vectors cannot be kept in %s (%s): they last for this process", path, error)

    def forget(self, key: str) -> None:
        """Drop a space: the next route that serves sets it anew."""
        self._spaces.pop(key, None)
        self._stamps.pop(key, None)
        path = self.path(key)
        if path is not None:
            path.unlink(missing_ok=True)

    def path(self, key: str) -> Path | None:
        """Where a space is kept; None in memory."""
        if self.folder is None:
            return None
        home = min(self._homes.get(key.partition(" ")[0], ()), default="")  # whatever the order of the routes
        digest = blake2b(f"{key}\n{FINGERPRINT}\n{home}".encode(), digest_size=6).hexdigest()
        return self.folder / f"{_readable(key)}.{digest}.json"  # other probe texts never meet in one file

    def _adopt(self, key: str, kept: Space) -> None:
        """The disk is what processes share: it adds to the same space, and takes the place of another one."""
        known = self._spaces.get(key)
        if known is None:
            known = self._spaces.setdefault(key, kept)
        if _is_same(known, kept):
            for endpoint, noise in kept.members.items():
                known.members.setdefault(endpoint, noise)
            return
        log.warning("space %s was set by %s in another process: every route is compared with that", key, kept.set_by)
        self._spaces[key] = kept

    def _others(self, key: str) -> Iterator[Space]:
        """The same space as other configurations have kept it, the latest first."""
        own = self.path(key)
        if own is None:
            return
        files = [(stamp, path) for path in own.parent.glob(f"{_readable(key)}.*.json") if (stamp := _stamp_of(path))]
        files.sort(reverse=True)
        for _, path in files[_MOST_KEPT:]:
            path.unlink(missing_ok=True)
        for _, path in files[:_MOST_KEPT]:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                if path != own and msgspec.json.decode(path.read_bytes(), type=_File).key == key:
                    yield _decoded(path.read_bytes())

    def _is_ours(self, key: str, kept: Space, reading: Reading | None) -> bool:
        family = key.partition(" ")[0]
        if any(endpoint in kept.members for endpoint in self._homes.get(family, ())):
            return True
        return reading is not None and space.compare(kept.reading, reading).ruling is space.Ruling.ACCEPT

    def _seen(self, key: str, stamp: Stamp | None) -> None:
        if stamp is not None:
            self._stamps[key] = stamp

    def _created(self, key: str, mine: Space) -> Space | None:
        """`mine` where it is the first on disk or cannot be kept there, else the one that was first."""
        path = self.path(key)
        if path is None:
            return mine
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _written(path, _encoded(key, mine)) as temporary:
                if _linked(temporary, path) or ((theirs := _read(path)) is None and _mended(temporary, path)):
                    self._seen(key, _stamp_of(temporary) or _stamp_of(path))
                    return mine
                return theirs or _read(path)
        except OSError as error:
            log.warning("the reference vectors cannot be kept in %s (%s): they last for this process", path, error)
            return mine


def _readable(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", key)[:80]


def _encoded(key: str, known: Space) -> bytes:
    members = dict(known.members)  # a copy: another thread may add to it
    return msgspec.json.encode(_File(key, known.set_by, space.dump(known.reading).decode(), members))


def _decoded(content: bytes) -> Space:
    kept = msgspec.json.decode(content, type=_File)
    return Space(kept.set_by, space.load(kept.reading.encode()), kept.members)


def _is_same(one: Space, other: Space) -> bool:
    return one.set_by == other.set_by and space.dump(one.reading) == space.dump(other.reading)


def _stamp_of(path: Path) -> Stamp | None:
    """What changes when a file is written anew; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> Space | None:
    """The space in a file; None where there is no file or no space in it. Raises OSError where it may not be read."""
    try:
        return _decoded(path.read_bytes())
    except (FileNotFoundError, ValueError, msgspec.MsgspecError):
        return None


@contextlib.contextmanager
def _written(path: Path, content: bytes) -> Iterator[Path]:
    """A whole file beside `path`, readable by whom the umask allows; it is gone afterwards."""
    temporary = path.with_name(f"{path.name}.{os.urandom(6).hex()}.new")
    try:
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), "wb") as file:
            file.write(content)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _linked(temporary: Path, path: Path) -> bool:
    """Whether the file got the name: only the first one does, whichever process asks."""
    try:
        os.link(temporary, path)
    except OSError:
        return False  # it is there already, or this file system has no hard links
    return True


def _mended(temporary: Path, path: Path) -> bool:
    """As `_linked`, where a damaged file has the name or links cannot be made: for whoever makes the lock file."""
    lock = path.with_suffix(".lock")
    left_at = _stamp_of(lock)
    if left_at is not None and temporary.stat().st_mtime - left_at[0] / 1e9 > _STALE:
        lock.unlink(missing_ok=True)
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    try:
        if _read(path) is not None:
            return False
        temporary.replace(path)
        return True
    finally:
        lock.unlink(missing_ok=True)
