"""The plan of a call: which routes may serve it, in which order, and why the others may not. The family law lives here.

An embedding plan holds routes of its own family and of no other. A chat plan goes on into the `fallback` families.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from shim._core.budget import Budget
from shim._core.call import Lane
from shim._core.health import RouteHealth
from shim._core.order import Place, arrange
from shim._core.prepare import Lengths, Writer, asked_dimensions, credentials, lengths, own_credentials
from shim._core.request import Request, count_inputs
from shim.config import FamilyConfig, ProviderConfig, RouteConfig
from shim.events import Kind

_KEPT_PLANS = 64
OWN_KEY = -1
"""In place of the index of a key: the caller's own, or none at all for a provider that needs none."""


@dataclass(slots=True)
class RouteState:
    """A route with all that is known of it."""

    config: RouteConfig
    provider: ProviderConfig
    health: RouteHealth
    writer: Writer
    is_off: bool = False
    """Switched off by an operator, until switched on again."""


@dataclass(slots=True)
class FamilyState:
    """A family with what its calls share. `locked` is the length of its vectors once one was seen, `pinned` the one
    route or provider that an operator lets its calls go to."""

    config: FamilyConfig
    routes: list[RouteState]
    retry_budget: Budget
    hedge_budget: Budget
    turn: int = 0
    locked: int | None = None
    pinned: str | None = None
    fixed: dict[str, Plan] = field(default_factory=dict)
    """Plans that do not depend on the request, by the client's own base URL."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One way to serve the call: a route with one of its keys, and the length that it is to answer."""

    family: FamilyState
    route: RouteState
    key: int
    lengths: Lengths | None

    @property
    def key_alias(self) -> str:
        return self.route.provider.keys[self.key].alias if self.key >= 0 else ""

    @property
    def account(self) -> str:
        """The account of the key, "" for the caller's own."""
        return self.route.provider.keys[self.key].account if self.key >= 0 else ""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A route that may not serve this call, and why."""

    route: str
    reason: str


@dataclass(slots=True)
class Plan:
    """`slots` and `lanes` run in step: what the machine calls a lane is the slot at that index."""

    slots: list[Slot] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def add(self, family: FamilyState, route: RouteState, fit: Lengths | None, account: str = "") -> None:
        """One lane for each key of the route (of the `account`, where one is named), the key whose turn it is first."""
        ordinal = self.lanes[-1].route + 1 if self.lanes else 0
        keys = len(route.provider.keys)
        first = route.health.next_key % keys if keys else 0
        if keys > 1:
            route.health.next_key += 1
        for key in [(first + i) % keys for i in range(keys)] if keys else [OWN_KEY]:
            if account and (key == OWN_KEY or route.provider.keys[key].account != account):
                continue
            self.slots.append(Slot(family, route, key, fit))
            self.lanes.append(Lane(ordinal, key, route.provider.name, model_name(route.config.model)))


def model_name(model: str) -> str:
    """A model's name without the owner that hosts put before it and without its case: `openai/GPT-4o` is `gpt-4o`."""
    return model.rsplit("/", 1)[-1].lower()


def make_plan(
    request: Request,
    families: list[FamilyState],
    draw: Callable[[], float],
    *,
    pinned: str | None = None,
    only_first: bool = False,
    account: str = "",
) -> Plan:
    """The plan for a request over its family and, for chat, the families that it falls back on.

    `pinned` names the one provider or route that may serve it, `account` the one account whose keys may. Without one
    an operator's pin of the family holds.
    """
    pinned = pinned or families[0].pinned
    if request.kind is Kind.EMBEDDING:
        families = families[:1]  # the family law: an embedding call never leaves its family
    elif pinned is None and not only_first and all(map(is_fixed, families)):
        known = families[0].fixed.get(request.own_base)
        if known is None:
            known = _make(request, families, draw, None, only_first=False)
            if len(families[0].fixed) < _KEPT_PLANS:
                families[0].fixed[request.own_base] = known
        return known
    return _make(request, families, draw, pinned, only_first=only_first, account=account)


def is_fixed(family: FamilyState) -> bool:
    """Whether its routes always come in the same order, each with one key or none, whoever calls."""
    if family.config.policy.order != "priority":
        return False
    return all(len(route.provider.keys) < 2 and route.provider.is_usable for route in family.routes)


def _make(
    request: Request,
    families: list[FamilyState],
    draw: Callable[[], float],
    pinned: str | None,
    *,
    only_first: bool,
    account: str = "",
) -> Plan:
    plan = Plan()
    if pinned is not None:
        families = families[:1]  # a pin names a route of this family, not whatever else its provider serves
    for family in families:
        for route in in_order(family, draw):
            reason, fit = why_not(request, family, route, pinned, account)
            if reason:
                plan.skipped.append(Skipped(route.config.route, reason))
            elif only_first and plan.lanes:
                plan.skipped.append(Skipped(route.config.route, "fallback is switched off for this call"))
            else:
                plan.add(family, route, fit, account)
    return plan


def in_order(family: FamilyState, draw: Callable[[], float]) -> Iterator[RouteState]:
    """The routes of a family in the order of its policy."""
    order = family.config.policy.order
    if len(family.routes) == 1:
        return iter(family.routes)
    if order == "priority":
        return iter(sorted(family.routes, key=lambda route: route.config.priority))
    places = [
        Place(
            route.config.priority,
            route.config.weight,
            route.health.in_flight,
            route.health.percentile(0.5) if order == "fastest" else None,
        )
        for route in family.routes
    ]
    turn = family.turn
    family.turn += 1
    return iter([family.routes[index] for index in arrange(places, order, turn, draw)])


def account_of(request: Request, provider: ProviderConfig) -> str:
    """The account at `provider` of the request's own key where it is one of ours, else its first; "" without keys."""
    sent = {value for _, value in own_credentials(request)}
    for key in provider.keys:
        pair = credentials(provider, key)
        if pair is not None and pair[1] in sent:
            return key.account
    return provider.keys[0].account if provider.keys else ""


def why_not(
    request: Request, family: FamilyState, route: RouteState, pinned: str | None, account: str = ""
) -> tuple[str, Lengths | None]:
    """Why a route may not serve this request ("" when it may), and the lengths it would answer."""
    config, provider = route.config, route.provider
    if pinned is not None and pinned not in (provider.name, config.route):
        return f"the call is pinned to {pinned}", None
    if not config.enabled:
        return "switched off in the configuration", None
    if not provider.enabled:
        return f"provider {provider.name} is switched off in the configuration", None
    if route.is_off:
        return f"switched off by hand, until router.enable({config.route!r})", None
    if not provider.is_usable and not (provider.base_url == request.own_base and own_credentials(request)):
        return f"no key: set {provider.missing or 'api_key'} for provider {provider.name}", None
    if account and all(key.account != account for key in provider.keys):
        return f"provider {provider.name} has no key of account {account}", None
    if request.kind is not Kind.EMBEDDING:
        return "", None
    return _why_not_embed(request, family, route)


def _why_not_embed(request: Request, family: FamilyState, route: RouteState) -> tuple[str, Lengths | None]:
    asked = asked_dimensions(request.fields)
    fit = lengths(family.config, route.config, asked, family.locked, route.health.dropped)
    if fit is None:
        return f"it cannot give vectors of {asked} dimensions", None
    limit = route.config.max_inputs
    count = None if limit is None else count_inputs(request.fields.get("input"))
    if limit is not None and count is not None and count > limit:
        return f"{count} inputs are more than the {limit} that it takes in one request", None
    return "", fit
