"""What makes two vectors comparable, and the key under which a text's vector is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import Enum
from hashlib import blake2b

import msgspec


class Oversize(str, Enum):
    """What happens to a text that is longer than the model takes."""

    ERROR = "error"
    TRUNCATE = "truncate"
    SPLIT_MEAN = "split-mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceIdentity:
    """All that decides where a text lands: vectors of different identities never share a store.

    `dimensions` None is the family's own length. `input_type` is `document`, `query` or "" for none.
    `normalised` says that vectors were scaled to length 1 here.
    """

    family: str
    dimensions: int | None
    normalised: bool
    input_type: str
    oversize: Oversize

    @property
    def id(self) -> str:
        """32 hex digits, the same for the same identity on every machine."""
        fields = {**asdict(self), "oversize": self.oversize.value}
        return blake2b(msgspec.json.encode(sorted(fields.items())), digest_size=16).hexdigest()

    def keys(self) -> Callable[[bytes], bytes]:
        """A function from a text's UTF-8 to its 16-byte key: blake2b of identity and text."""
        begun = blake2b(self.id.encode() + b"|", digest_size=16)

        def key(text: bytes) -> bytes:
            hashed = begun.copy()
            hashed.update(text)
            return hashed.digest()

        return key

    def __str__(self) -> str:
        length = self.dimensions or "full length"
        scaled = ", scaled to 1" if self.normalised else ""
        return f"{self.family} ({length}, {self.input_type or 'no input type'}{scaled}, oversize {self.oversize.value})"
