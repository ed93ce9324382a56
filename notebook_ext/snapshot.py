"""Makes the snapshot: the router's status, what the fold kept, and the configuration, put together. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from notebook_ext import calls, jobs, routes, words
from notebook_ext.fold import Fold, Trouble
from notebook_ext.model import FamilyView, Snapshot, Tone, TroubleView
from shim.config import Config, FamilyConfig
from shim.events import Ending, Kind, Verdict
from shim.router import SpaceStatus, Status

SHOWN_TROUBLES = 8
_ADVICE: dict[Verdict, tuple[str, Tone]] = {
    Verdict.TRANSIENT: ("wait: it passes by itself", "warn"),
    Verdict.BROKEN: ("fix the configuration", "bad"),
    Verdict.CANNOT: ("another route is asked: no fault", "quiet"),
    Verdict.FATAL: ("fix the request", "bad"),
    Verdict.OK: ("", "quiet"),
}
_LOUDEST = (Verdict.BROKEN, Verdict.FATAL, Verdict.TRANSIENT, Verdict.CANNOT, Verdict.OK)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a snapshot is made of, besides the fold."""

    config: Config
    status: Status
    spaces: Sequence[SpaceStatus] = ()
    rehearsals: Mapping[str, str] = field(default_factory=dict)
    """Subject of a rehearsal under way -> what it does, in words."""
    acks: Sequence[tuple[str, str]] = ()
    seq: int = 0


def make(sources: Sources, fold: Fold) -> Snapshot:
    """All that a panel shows, as of `sources.status.at`."""
    families = tuple(_family(family, sources, fold) for family in sources.config.families.values())
    tone, headline = _headline(families)
    return Snapshot(
        v=1,
        seq=sources.seq,
        at=sources.status.at,
        tone=tone,
        headline=headline,
        figures=_figures(families, fold),
        families=families,
        calls=tuple(calls.view(call) for call in reversed(fold.calls)),
        troubles=_troubles(fold),
        jobs=tuple(jobs.view(job) for job in reversed(fold.jobs.values())),
        rehearsals=tuple(f"{words.clean(name) or 'every route'}: {what}" for name, what in sources.rehearsals.items()),
        acks=tuple(sources.acks),
    )


def _family(family: FamilyConfig, sources: Sources, fold: Fold) -> FamilyView:
    config, status = sources.config, sources.status
    providers = {provider.name: provider for provider in status.providers}
    spaces = _spaces(family, sources)
    rows = []
    for route in status.routes:
        if route.family == family.name:
            its = next(one for one in family.routes if one.route == route.route)
            rows.append(
                routes.view(
                    route,
                    providers[its.provider],
                    its,
                    fold,
                    at=status.at,
                    space=spaces.get(route.route, ""),
                    rehearsed=sources.rehearsals,
                )
            )
    pinned = next((row.route for row in rows if row.is_pinned), None)
    about = _about(family, status.dimensions.get(family.name), config)
    return FamilyView(
        name=words.clean(family.name), kind=family.kind.value, about=about, pinned=pinned, routes=tuple(rows)
    )


def _about(family: FamilyConfig, dimensions: int | None, config: Config) -> str:
    parts = [family.kind.value]
    if family.kind is Kind.EMBEDDING:
        parts.append(f"{dimensions} dimensions" if dimensions else "dimensions not seen yet")
        parts.append("one vector space: calls never leave this family")
    elif family.fallback:
        parts.append(f"falls back on {', '.join(map(words.clean, family.fallback))}")
    parts.append({"sequential": "in order", "hedged": "hedged", "race": "race"}[family.policy.mode])
    if family.name in (config.default_chat, config.default_embedding):
        parts.append('"auto"')
    return " · ".join(parts)


def _spaces(family: FamilyConfig, sources: Sources) -> dict[str, str]:
    if family.kind is not Kind.EMBEDDING:
        return {}
    urls = {name: provider.base_url for name, provider in sources.config.providers.items()}
    its = {}
    for space in sources.spaces:
        name, length, input_type = space.key.rsplit(" ", 2)
        if name == family.name:
            its[input_type if length == "native" else f"{length} {input_type}"] = space
    return routes.spaces_of(family, urls, its)


def _headline(families: Sequence[FamilyView]) -> tuple[Tone, str]:
    """Is anything wrong? A family with no route that serves comes first."""
    rows = [row for family in families for row in family.routes]
    for family in families:
        usable = family.routes if family.pinned is None else [row for row in family.routes if row.is_pinned]
        if not any(row.is_serving for row in usable):
            back = [row.back_at for row in usable if row.back_at is not None]
            until = f", back at {words.clock(min(back))}" if back else ", and none is known to come back"
            return "bad", f"No route of {family.name} can serve{until}"
    if not rows:
        return "quiet", "No families are configured: every call passes through"
    out = [row for row in rows if not row.is_serving]
    if out:
        return "warn", f"{len(rows) - len(out)} of {words.plural(len(rows), 'route')} can serve"
    half = sum(row.breaker == "half-open" for row in rows)
    if half:
        return "warn", f"All {words.plural(len(rows), 'route')} can serve, {half} on probation"
    return "ok", f"All {len(rows)} routes can serve" if len(rows) > 1 else "The one route can serve"


def _figures(families: Sequence[FamilyView], fold: Fold) -> str:
    rows = [row for family in families for row in family.routes]
    answered = sum(row.ok for row in rows)
    failed = sum(row.failed for row in rows)
    if not answered and not failed:
        return "no call yet"
    parts = [words.plural(answered, "answer"), words.plural(failed, "failed attempt")]
    for ending, word in ((Ending.EXHAUSTED, "exhausted"), (Ending.INTERRUPTED, "broken off")):
        if fold.endings[ending]:
            parts.append(f"{words.plural(fold.endings[ending], 'call')} {word}")
    parts.append(f"{words.count(sum(row.tokens for row in rows))} tokens")
    priced = [row.cost for row in rows if row.cost is not None]
    if priced:
        lost = f", {words.money(fold.lost_cost)} of it for attempts that lost" if fold.lost_cost >= 0.00005 else ""
        parts.append(f"{words.money(sum(priced))} spent{lost}")
    return " · ".join(parts)


def _troubles(fold: Fold) -> tuple[TroubleView, ...]:
    known = sorted(fold.troubles.items(), key=lambda item: (_LOUDEST.index(item[0][0]), -item[1].count))
    return tuple(_trouble(verdict, reason, trouble) for (verdict, reason), trouble in known[:SHOWN_TROUBLES])


def _trouble(verdict: Verdict, reason: str, trouble: Trouble) -> TroubleView:
    advice, tone = _ADVICE[verdict]
    return TroubleView(
        verdict=verdict.value,
        reason=words.clean(reason),
        count=trouble.count,
        route=words.clean(trouble.last.route),
        message=words.clean(trouble.last.message),
        at=trouble.last.started_at,
        advice=advice,
        tone=tone,
    )
