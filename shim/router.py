"""The router: a configuration, the health that its calls share, and windows on both."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from shim import loading, roster, telemetry
from shim._core import space
from shim._http.engine import Engine
from shim._run import inspection, rehearsal, switches
from shim._run.board import Board
from shim._run.inspection import Explanation, ProviderStatus, RouteStatus, SpaceStatus, Status
from shim._run.references import References
from shim._run.rehearsal import Rehearsal, RehearsalStatus
from shim._run.system import Clock, SystemClock
from shim.config import Config
from shim.config_error import ConfigError
from shim.events import BreakerState, Call, Event, Kind, Observer

if TYPE_CHECKING:
    from shim._core.vectors import Reader
    from shim._http.in_process import InProcess

__all__ = [
    "Explanation",
    "ProviderStatus",
    "Rehearsal",
    "RehearsalStatus",
    "RouteStatus",
    "Router",
    "SpaceStatus",
    "Status",
]

logging.getLogger("shim").addHandler(logging.NullHandler())


def _cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Where reference vectors are kept: `$SHIM_CACHE_DIR`, else the user's cache directory; "" keeps them in memory."""
    named = environ.get("SHIM_CACHE_DIR")
    if named is not None:
        return Path(named).expanduser() / "spaces" if named else None
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shim" / "spaces"


def _homes(config: Config) -> dict[str, list[str]]:
    """Where the routes of each embedding family live."""
    return {
        name: [space.endpoint(config.providers[route.provider].base_url, route.model) for route in family.routes]
        for name, family in config.families.items()
        if family.kind is Kind.EMBEDDING
    }


class Router:
    """Routes calls over the providers of a configuration. Shared by sync and async clients, threads and event loops.

    `Router(mapping)` and `Router.load(path)` raise `shim.ConfigError` with every problem that was found. A router can
    be pickled: it travels as its configuration (`${VAR}` unresolved) and starts with fresh health.
    """

    def __init__(self, config: Mapping[str, object] | Config, *, clock: Clock | None = None) -> None:
        self.config: Config = config if isinstance(config, Config) else loading.load(config)
        self._clock = clock or SystemClock()
        references = References(_cache_folder(os.environ), _homes(self.config))
        self._board = Board(self.config, self._clock, references, _packed)
        self._engine = Engine(self._board, _local)
        if (latecomer := telemetry.latecomer(self.config)) is not None:
            self._board.bus.latecomers.append(latecomer)
        roster.enter(self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, clock: Clock | None = None) -> Self:
        """A router from a TOML file, a `pyproject.toml` with `[tool.shim]`, or a LiteLLM `config.yaml`."""
        return cls(loading.load(path), clock=clock)

    @classmethod
    def discover(cls) -> Self | None:
        """The router of the first configuration found: `$SHIM_CONFIG`, `./shim.toml`, `[tool.shim]` of
        `./pyproject.toml`, `~/.config/shim/config.toml`. None when there is none."""
        found = loading.discover()
        return None if found is None else cls(found)

    # -- seeing it

    def explain(self, model: str = "", *, kind: str | None = None, **request: object) -> Explanation:
        """The plan for a call, without sending it: routes in order, who is skipped and why, what it may cost.

        Without a `kind` the first kind that knows `model` is explained, embeddings before chat. `request` may hold
        fields of the call that matter to the plan, such as `dimensions` or `input`.
        """
        return inspection.explain(self._board, model, kind, request)

    def status(self) -> Status:
        """Providers, keys, routes, breakers, cooldowns, latencies (p50, p95, seconds), tokens and cost, as of now."""
        return inspection.status(self._board)

    def spaces(self) -> tuple[SpaceStatus, ...]:
        """The embedding spaces that are known, from this process or earlier ones: who set each, who is in it."""
        return inspection.spaces(self._board)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The last calls, oldest first; at most a thousand are kept."""
        return tuple(self._board.calls)

    def subscribe(self, observer: Observer) -> None:
        """Call `observer` with every event from now on, in the thread or task where it happens."""
        self._board.bus.subscribe(observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Stop telling `observer`."""
        self._board.bus.unsubscribe(observer)

    def publish(self, event: Event) -> None:
        """Tell every observer of an event that is not the router's own, such as `JobProgress`."""
        self._board.bus.emit(event)

    # -- acting on it

    def reset(self, name: str | None = None) -> None:
        """Close the breakers and forget the cooldowns of a route (`provider/model`), a provider, or all (None)."""
        switches.reset(self._board, name)

    def force_open(self, name: str) -> None:
        """Take a route (`provider/model`) or a provider out until `reset`."""
        switches.force_open(self._board, name)

    def disable(self, name: str) -> None:
        """Leave a route (`provider/model`) or a provider out of every new plan until `enable`; `reset` leaves it off.

        Attempts in flight go on. Raises ValueError for a name that is not known, as all of these do.
        """
        switches.switch(self._board, name, is_off=True)

    def enable(self, name: str) -> None:
        """Undo `disable`. What the configuration switched off stays off."""
        switches.switch(self._board, name, is_off=False)

    def pin(self, family: str, name: str) -> None:
        """Send every new call of `family` to one of its routes or providers alone, until `unpin`.

        A pinned chat family does not fall back on others. A call that names its own route goes there.
        """
        switches.pin(self._board, family, name)

    def unpin(self, family: str) -> None:
        """Let the calls of `family` go to all of its routes again."""
        switches.pin(self._board, family, None)

    def rehearse(
        self,
        name: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
        fault: str | None = None,
        delay: float | None = None,
        times: int | None = None,
        seconds: float | None = None,
    ) -> Rehearsal:
        """See what would happen, before it does: `with router.rehearse("openai", status=429, retry_after=30): ...`

        Attempts on a route or a provider ("" for all) meet the fault in place of an answer: an HTTP `status`, a
        `fault` (`timeout`, `connection`, `reset`, `tls`), or a `delay` in seconds before the real answer. At most
        `times` attempts, and no longer than `seconds`. All calls of this router take part. Rehearsed attempts are
        marked, and in no figure; when it ends, breakers and cooldowns are as they were. Raises ValueError.
        """
        if name:
            switches.check(self._board, name)
        profile = rehearsal.profile_of(
            name, status=status, retry_after=retry_after, fault=fault, delay=delay, times=times, seconds=seconds
        )
        return Rehearsal(self._board, profile)

    @property
    def rehearsals(self) -> tuple[Rehearsal, ...]:
        """The rehearsals under way."""
        rehearsal.end_due(self._board)
        return self._board.rehearsals

    # -- for libraries that take an httpx client

    def http_client(self, base_url: str = "https://api.openai.com/v1", **settings: Any) -> Any:
        """An `httpx2.Client` (`httpx.Client` with openai 2.x) whose requests are routed, for libraries that take one.

        Requests for models of no family go on to where they were sent. `settings` are the client's own arguments.
        """
        from shim._http import faces

        return faces.sync_client(self._engine, base_url, settings)

    def async_http_client(self, base_url: str = "https://api.openai.com/v1", **settings: Any) -> Any:
        """As `http_client`, an async one."""
        from shim._http import faces

        return faces.async_client(self._engine, base_url, settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (dict(self.config.raw),))

    def __repr__(self) -> str:
        families = ", ".join(f"{family.name} ({len(family.routes)})" for family in self.config.families.values())
        out = [
            route.health.name
            for state in self._board.families.values()
            for route in state.routes
            if route.health.breaker.state is not BreakerState.CLOSED
        ]
        shown = f"; not closed: {', '.join(dict.fromkeys(out))}" if out else ""
        return f"<shim.Router from {self.config.source}: {families or 'no families'}{shown}>"


def as_router(router: Router | Mapping[str, object] | str | os.PathLike[str]) -> Router:
    """The router that a client's `router` argument means."""
    if isinstance(router, Router):
        return router
    if isinstance(router, Mapping):
        return Router(router)
    if isinstance(router, str | os.PathLike):
        return Router.load(router)
    raise ConfigError(f"router: must be a Router, a mapping, a path or False, is {type(router).__name__}")


def _packed() -> Reader:
    from shim._packed import read

    return read


def _local() -> InProcess:
    from shim.local.provider import LocalProvider

    return LocalProvider()
