"""`shim explain MODEL`: the plan for a call, without sending it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from shim import Kind, Router
from shim.cli import tables
from shim.cli.complaints import Complaint
from shim.cli.sources import ConfigOption, JsonOption, config_at

if TYPE_CHECKING:
    from shim.embed.prices import RoutePrice
    from shim.router import Explanation


def explain(
    model: Annotated[str, typer.Argument(help="A family, an alias, a model id, family/provider, or auto.")],
    kind: Annotated[Kind | None, typer.Option(help="The kind of call; without it every kind is looked at.")] = None,
    dimensions: Annotated[int | None, typer.Option(min=1, help="The length that an embedding call asks for.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which routes a call would try, in which order, and which it would skip and why. Sends nothing.

    Exit code 1 when the model belongs to no family, or no route could serve the call.
    """
    if dimensions is not None and kind not in (None, Kind.EMBEDDING):
        raise Complaint(f"--dimensions {dimensions}: a {kind.value} call has none; leave it out or ask for embedding")
    router = Router(config_at(config))
    plan = _plan(router, model, kind, dimensions)
    if as_json:
        tables.print_json(plan)
    else:
        _show(plan, router, model)
    if not plan.steps:
        raise typer.Exit(1)


def _plan(router: Router, model: str, kind: Kind | None, dimensions: int | None) -> Explanation:
    asked = {} if dimensions is None else {"dimensions": dimensions}
    kinds = [kind] if kind is not None else [Kind.EMBEDDING] if asked else list(Kind)
    plans = [router.explain(model, kind=one.value, **asked) for one in kinds]
    known = [plan for plan in plans if plan.family is not None]
    return (known or sorted(plans, key=lambda plan: not plan.suggestions))[0]


def _show(plan: Explanation, router: Router, model: str) -> None:
    out = tables.console()
    if plan.family is None:
        families = ", ".join(f"{family.name} ({family.kind.value})" for family in router.config.families.values())
        out.print(f"{model!r} belongs to no family: a call for it passes through to the client's own base URL.")
        if plan.suggestions:
            out.print(f"Did you mean: {', '.join(plan.suggestions)}?")
        out.print(f"Families of {router.config.source}: {families or 'none'}")
        return
    most = f", at most {tables.counted(plan.most_requests, 'request')} a call" if plan.steps else ""
    out.print(f"{plan.kind.value} family {plan.family}, mode {plan.mode}{most}")
    out.print()
    if plan.steps:
        known = _known_prices(plan, router)
        out.print(tables.table(("#", "route", "keys", "ready", "$/M in", "$/M out"), _steps(plan, known), right=("#",)))
        for source in dict.fromkeys(price.source for price in known.values()):
            out.print(tables.styled(f"Prices: {source}", tables.QUIET))
    else:
        out.print(tables.styled("No route can serve this call.", tables.BAD))
    if plan.skipped:
        out.print()
        skips = [(tables.styled(skip.route, tables.QUIET), skip.reason) for skip in plan.skipped]
        out.print(tables.table(("skipped", "why"), skips))


def _known_prices(plan: Explanation, router: Router) -> dict[str, RoutePrice]:
    """What embedding routes without a configured price cost by the table that ships, which datasets count with too."""
    from shim.embed.prices import price_of

    if plan.kind is not Kind.EMBEDDING:
        return {}
    config = router.config
    routes = [route for family in config.families.values() for route in family.routes if route.price is None]
    asked = {step.route for step in plan.steps}
    found = {one.route: price_of(one, config.providers[one.provider]) for one in routes if one.route in asked}
    return {name: price for name, price in found.items() if price is not None}


def _steps(plan: Explanation, known: Mapping[str, RoutePrice]) -> list[tuple[tables.Cell, ...]]:
    return [
        (
            str(number),
            step.route + (f" (of {step.family})" if step.family != plan.family else ""),
            ", ".join(step.keys) or "none needed",
            step.note or "now",
            _price(known[step.route].per_million if step.route in known else step.price_input),
            _price(step.price_output),
        )
        for number, step in enumerate(plan.steps, start=1)
    ]


def _price(dollars: float | None) -> str:
    return "" if dollars is None else f"{dollars:g}"
