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
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import ClassVar
from weakref import WeakKeyDictionary

import msgspec

from shim._core import space
from shim._core.space import Reading
from shim._core.space_probes import FINGERPRINT
from shim._run.reference_files import (
    Space,
    SpaceFile,
    Stamp,
    decoded,
    encoded,
    is_same,
    linked,
    mended,
    read_space,
    readable,
    stamp_of,
    written,
)

log = logging.getLogger("shim")

_MOST_KEPT = 32
"""Files of one space: a server on a port that changes leaves one for each."""


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
        stamp = None if path is None else stamp_of(path)
        if stamp is None and key not in self._spaces:
            self.inherit(key, None)
        if path is None or stamp is None or stamp == self._stamps.get(key):
            return
        try:
            kept = read_space(path)
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
                self.load(msgspec.json.decode(path.read_bytes(), type=SpaceFile).key)

    def exported(self, family: str) -> dict[str, bytes]:
        """The spaces of a family, by key, as another machine can `take_over`."""
        self.load_all()
        return {key: encoded(key, known) for key, known in self._spaces.items() if key.startswith(f"{family} ")}

    def take_over(self, exported: Mapping[str, bytes]) -> list[str]:
        """Hold by another machine's spaces from now on; a space that is known here already stays.

        Gives a message for each that is known here as another space: its vectors and theirs do not belong together.
        """
        problems = []
        for key, content in exported.items():
            theirs = decoded(content)
            self.load(key)
            known = self._spaces.get(key) or self.claim(key, theirs.set_by, theirs.reading)
            if known is None or is_same(known, theirs):
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
        if stamp_of(path) is None:  # removed meanwhile: whoever is first sets it
            kept = self._created(key, known)
            if kept is not None and kept is not known:
                self._adopt(key, kept)
            return
        try:
            with written(path, encoded(key, known)) as temporary:
                stamp = stamp_of(temporary)
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
        return self.folder / f"{readable(key)}.{digest}.json"  # other probe texts never meet in one file

    def _adopt(self, key: str, kept: Space) -> None:
        """The disk is what processes share: it adds to the same space, and takes the place of another one."""
        known = self._spaces.get(key)
        if known is None:
            known = self._spaces.setdefault(key, kept)
        if is_same(known, kept):
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
        files = [(stamp, path) for path in own.parent.glob(f"{readable(key)}.*.json") if (stamp := stamp_of(path))]
        files.sort(reverse=True)
        for _, path in files[_MOST_KEPT:]:
            path.unlink(missing_ok=True)
        for _, path in files[:_MOST_KEPT]:
            with contextlib.suppress(OSError, ValueError, msgspec.MsgspecError):
                if path != own and msgspec.json.decode(path.read_bytes(), type=SpaceFile).key == key:
                    yield decoded(path.read_bytes())

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
            with written(path, encoded(key, mine)) as temporary:
                if linked(temporary, path) or ((theirs := read_space(path)) is None and mended(temporary, path)):
                    self._seen(key, stamp_of(temporary) or stamp_of(path))
                    return mine
                return theirs or read_space(path)
        except OSError as error:
            log.warning("the reference vectors cannot be kept in %s (%s): they last for this process", path, error)
            return mine
