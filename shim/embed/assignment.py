"""What a worker of a distributed job is told: plain values, which pickle, and a name that is the same everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What travels to the workers, as plain values: `configuration` as it was written, `${VAR}` unresolved.

    `concurrency` and `requests_per_second` are those of all workers together; `choices` are those of `client.embed`.
    """

    configuration: Mapping[str, Any]
    family: str | None
    column: str
    into: str
    workers: int
    concurrency: int
    requests_per_second: float | None
    share: str | None
    raises: bool
    choices: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The same for the same assignment, in every process."""
        told = [getattr(self, one.name) for one in fields(self)]
        return blake2b(msgspec.json.encode(told, enc_hook=str), digest_size=16).hexdigest()

    @property
    def party(self) -> str:
        """Names those who share limits: all who use one family of one configuration."""
        told = msgspec.json.encode([self.configuration, self.family], enc_hook=str)
        return blake2b(told, digest_size=8).hexdigest()
