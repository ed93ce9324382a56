"""The board: health that all calls of a router share. The only lock; under it no I/O, no await, no observer."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from shim._core import vectors
from shim._core.breaker import Breaker, BreakerRules
from shim._core.budget import Budget
from shim._core.catalog import Catalog
from shim._core.health import Cooldown, KeyHealth, ProviderHealth, RouteHealth
from shim._core.plan import FamilyState, RouteState
from shim._core.prepare import Writer, secrets_of
from shim._core.vectors import Reader
from shim._run.bus import Bus
from shim._run.injections import Injections
from shim._run.references import References
from shim._run.rehearsal import Rehearsal
from shim._run.system import Clock
from shim.config import BreakerConfig, Config, FamilyConfig, ProviderConfig
from shim.events import Call

_KEPT_CALLS = 1000
_KEPT_RESPONSES = 10_000
_HEDGES_AT_ONCE = 2.0  # hedges that a fresh family may start before its calls have earned any


class Maker(NamedTuple):
    """Who keeps a stored response: the family, the route, and the account of the key ("": the caller's own key)."""

    family: str
    route: str
    account: str


class Board:
    """Everything that lives longer than a call: health, budgets, the last calls, which route made which response."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        references: References,
        packed: Callable[[], Reader] = lambda: vectors.read,
    ) -> None:
        self.lock = threading.Lock()
        self.clock = clock
        self.packed = packed
        """Gives the reader for callers who take vectors packed: it needs NumPy, so it is asked for late."""
        self.bus = Bus()
        self.config = config
        self.catalog = Catalog(config)
        self.references = references
        self.injections = Injections(clock)
        self.calls: deque[Call] = deque(maxlen=_KEPT_CALLS)
        self.providers = {name: _provider(provider, config) for name, provider in config.providers.items()}
        self.families = {name: self._family(family) for name, family in config.families.items()}
        self.screenings: dict[tuple[str, str], float] = {}
        """Space key and endpoint of a route whose probes are under way -> the instant at which they are over."""
        self.secrets = tuple(
            dict.fromkeys(secret for provider in config.providers.values() for secret in secrets_of(provider))
        )
        """Every key of the configuration, for masking what providers repeat."""
        self.rehearsals: tuple[Rehearsal, ...] = ()
        """Those under way; replaced, never changed in place."""
        self._made_by: OrderedDict[str, Maker] = OrderedDict()
        self._prefix = os.urandom(4).hex()
        self._numbers = itertools.count(1)
        _boards.add(self)

    def _family(self, family: FamilyConfig) -> FamilyState:
        policy = family.policy
        rules = _rules(policy.breaker)
        routes = []
        for config in family.routes:
            provider = self.catalog.provider(config)
            health = RouteHealth(config.route, config.model, self.providers[config.provider], Breaker(rules))
            routes.append(RouteState(config, provider, health, Writer(family, config, provider)))
        return FamilyState(
            family,
            routes,
            Budget(share=policy.retry_budget.share, reserve=float(policy.retry_budget.minimum)),
            Budget(share=policy.hedge_budget, reserve=_HEDGES_AT_ONCE if policy.hedge_budget else 0.0),
        )

    def new_id(self) -> str:
        """An id for a call, unique in this process and unlikely to meet another's."""
        return f"{self._prefix}-{next(self._numbers):x}"

    def families_for(self, family: FamilyConfig) -> list[FamilyState]:
        """The states of a family and of those it falls back on."""
        return [self.families[name] for name in (family.name, *family.fallback)]

    def remember_response(self, response_id: str, maker: Maker) -> None:
        """A stored `/responses` answer lives where it was made. Call with the lock held by nobody."""
        with self.lock:
            self._made_by[response_id] = maker
            if len(self._made_by) > _KEPT_RESPONSES:
                self._made_by.popitem(last=False)

    def maker_of(self, response_id: str) -> Maker | None:
        """Who made a stored response, None when it is not known here."""
        return self._made_by.get(response_id)


def _rules(config: BreakerConfig) -> BreakerRules:
    return BreakerRules(
        failures=config.failures,
        failure_rate=config.failure_rate,
        window=config.window,
        window_min=config.window_min,
        cooldown=config.cooldown,
        max_cooldown=config.max_cooldown,
        probes=config.probes,
    )


def _provider(provider: ProviderConfig, config: Config) -> ProviderHealth:
    accounts: dict[str, Cooldown] = {}
    keys = [KeyHealth(key.alias, Cooldown(), accounts.setdefault(key.account, Cooldown())) for key in provider.keys]
    return ProviderHealth(provider.name, Breaker(_rules(config.policy.breaker)), keys)


_boards: weakref.WeakSet[Board] = weakref.WeakSet()


def _start_over() -> None:
    """In a forked child: what other threads held or had under way ended with them."""
    for board in list(_boards):
        board.lock = threading.Lock()
        board.screenings.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_start_over)
