"""Keeps the reference vectors of embedding spaces, in memory and on disk, and which endpoints were found in each space.

One small JSON file for each family, length and input type, written whole and renamed into place. A file that cannot be
read or written costs a new reference, never a call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import msgspec

from shim._core import space
from shim._core.space import Reading

log = logging.getLogger("shim")


@dataclass(slots=True)
class Space:
    """One vector space as it was first seen: who set it, its probe vectors, and who was found to be in it."""

    set_by: str
    reading: Reading
    members: dict[str, float] = field(default_factory=dict)
    """Endpoint -> noise over separation, for those that were accepted."""


class _File(msgspec.Struct):
    key: str
    set_by: str
    reading: str
    members: dict[str, float]


class References:
    """`folder` None keeps all in memory. `load`, `save` and `forget` touch the disk: never with a lock held."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._spaces: dict[str, Space | None] = {}

    def load(self, key: str) -> None:
        """Read a space from disk, once in the life of the process."""
        if key not in self._spaces:
            self._spaces[key] = self._read(key)

    def load_all(self) -> None:
        """Read every space that is kept."""
        for path in sorted(self.folder.glob("*.json")) if self.folder is not None else ():
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self.load(msgspec.json.decode(path.read_bytes(), type=_File).key)

    def known(self) -> dict[str, Space]:
        """The spaces in memory, by key."""
        return {key: known for key, known in self._spaces.items() if known is not None}

    def space(self, key: str) -> Space | None:
        """The space of this key, None while no route has set it."""
        return self._spaces.get(key)

    def put(self, key: str, endpoint: str, reading: Reading) -> None:
        """The first route of a space has given its probe vectors."""
        self._spaces[key] = Space(endpoint, reading, {endpoint: 0.0})

    def join(self, key: str, endpoint: str, noise: float) -> None:
        """Another route was found to be in the space."""
        known = self._spaces.get(key)
        if known is not None:
            known.members[endpoint] = noise

    def forget(self, key: str) -> None:
        """Drop a space: the next route that serves sets it anew."""
        self._spaces[key] = None
        path = self._path(key)
        if path is not None:
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path | None:
        if self.folder is None:
            return None
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", key)[:80]
        return self.folder / f"{readable}.{blake2b(key.encode(), digest_size=6).hexdigest()}.json"

    def _read(self, key: str) -> Space | None:
        path = self._path(key)
        if path is None or not path.is_file():
            return None
        try:
            kept = msgspec.json.decode(path.read_bytes(), type=_File)
            return Space(kept.set_by, space.load(kept.reading.encode()), kept.members)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("the reference vectors in %s cannot be read (%s): they will be taken anew", path, error)
            return None

    def save(self, key: str) -> None:
        """Keep a space on disk."""
        path, known = self._path(key), self._spaces.get(key)
        if path is None or known is None:
            return
        content = msgspec.json.encode(_File(key, known.set_by, space.dump(known.reading).decode(), known.members))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(path)
        except OSError as error:
            log.warning("the reference vectors cannot be kept in %s (%s): they last for this process", path, error)
