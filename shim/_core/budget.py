"""A token bucket that first attempts fill and extra attempts empty (Finagle, Envoy and gRPC call it a retry budget).

A fleet of failing calls may then add at most a share of its own load, however many retries each call is allowed.
"""

from __future__ import annotations


class Budget:
    """`share` tokens come in per first attempt, one goes out per extra attempt; it starts with `reserve` tokens."""

    __slots__ = ("_ceiling", "_share", "tokens")

    def __init__(self, *, share: float, reserve: float) -> None:
        self._share = share
        self._ceiling = max(reserve, 1.0)
        self.tokens = reserve

    def deposit(self) -> None:
        """A call made its first attempt."""
        self.tokens = min(self._ceiling, self.tokens + self._share)

    def withdraw(self) -> bool:
        """Take one token for an extra attempt; False when there is none."""
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def refund(self) -> None:
        """The extra attempt was not made after all."""
        self.tokens = min(self._ceiling, self.tokens + 1.0)
