"""Things that read well as the last line of a cell: a table in a notebook, the same in plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from notebook_ext import calls, words
from notebook_ext.render import sentence
from notebook_ext.table import escape, html_table, text
from shim.config import Config
from shim.errors import AllProvidersFailedError
from shim.events import Attempt, Call
from shim.router import Explanation

_ATTEMPTS = ("#", "route", "why", "verdict", "reason", "HTTP", "took", "it said")


@dataclass(frozen=True, slots=True, repr=False)
class View:
    """Shown as `plain` in a terminal and as `html` in a notebook."""

    plain: str
    html: str

    def __repr__(self) -> str:
        return self.plain

    def _repr_html_(self) -> str:
        return self.html


def attempts_text(attempts: Sequence[Attempt], indent: str = "  ") -> str:
    """The attempts of a call as a table in plain text."""
    return text(_ATTEMPTS, _attempt_rows(attempts), right=(0, 5, 6), indent=indent)


def of_call(call: Call) -> View:
    """One call with its attempts."""
    return of_calls([call])


def of_calls(shown: Sequence[Call]) -> View:
    """Calls with their attempts, in the order given."""
    if not shown:
        return of_line("no call yet")
    plain, html = [], []
    for call in shown:
        made = calls.view(call)
        head = f"{made.family}, {made.mode}, {made.ending} after {words.seconds(call.duration)}"
        told = sentence(made.words)
        plain.append(f"{head}: {told}\n{attempts_text(call.attempts)}" if call.attempts else f"{head}: {told}")
        html.append(f"<p><b>{escape(head)}</b> &nbsp; {escape(told)}</p>")
        if call.attempts:
            html.append(html_table(_ATTEMPTS, _attempt_rows(call.attempts), left=(1, 2, 3, 4, 7)))
    return View("\n".join(plain), f"<div>{''.join(html)}</div>")


def of_error(error: AllProvidersFailedError) -> View:
    """An exhausted call: the message, its attempts, and when to try again."""
    said = words.clean(error, 600)
    back = _back(error)
    rows = html_table(_ATTEMPTS, _attempt_rows(error.attempts), left=(1, 2, 3, 4, 7)) if error.attempts else ""
    plain = "\n".join(part for part in (said, attempts_text(error.attempts) if error.attempts else "", back) if part)
    return View(plain, f"<div><p><b>{escape(said)}</b></p>{rows}<p>{escape(back)}</p></div>")


def of_explanation(plan: Explanation) -> View:
    """The plan of a call."""
    rows = [
        (
            str(number),
            step.route,
            ", ".join(step.keys) or "–",
            "at once" if step.ready_in == 0 else words.seconds(step.ready_in),
            _price(step.price_input, step.price_output),
            words.clean(step.note),
        )
        for number, step in enumerate(plan.steps, 1)
    ]
    rows += [("–", skip.route, "", "", "", words.clean(skip.reason)) for skip in plan.skipped]
    plain = words.clean(str(plan), 10_000) if plan.family is None else "\n".join(map(_line, str(plan).splitlines()))
    head = words.clean(str(plan).splitlines()[0])
    table = html_table(("#", "route", "keys", "ready", "price per million", "note"), rows, left=(1, 2, 5))
    return View(plain, f"<div><p><b>{escape(head)}</b></p>{table if rows else ''}</div>")


def of_config(config: Config) -> View:
    """A configuration, without its secrets: keys by their alias."""
    providers = [
        (
            name,
            words.clean(provider.base_url),
            ", ".join(key.alias for key in provider.keys)
            or (f"set {provider.missing}" if provider.missing else "none"),
            "on" if provider.enabled else "off",
        )
        for name, provider in config.providers.items()
    ]
    families = [
        (
            family.name,
            family.kind.value,
            family.policy.mode,
            ", ".join(route.route for route in family.routes),
            ", ".join(family.aliases),
        )
        for family in config.families.values()
    ]
    head = ("provider", "base URL", "keys", "state")
    family_head = ("family", "kind", "mode", "routes", "aliases")
    source = f"from {words.clean(config.source)}"
    plain = [source, text(family_head, families, indent="  "), text(head, providers, indent="  ")]
    plain += [f"  note: {words.clean(note)}" for note in config.notes]
    html = [f"<p>{escape(source)}</p>", html_table(family_head, families, left=range(5))]
    html += [html_table(head, providers, left=range(4))]
    html += [f"<p>{escape(words.clean(note))}</p>" for note in config.notes]
    return View("\n".join(plain), f"<div>{''.join(html)}</div>")


def of_line(line: str) -> View:
    """One sentence."""
    return View(line, f"<p>{escape(line)}</p>")


def _attempt_rows(attempts: Sequence[Attempt]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    probes = 0
    for attempt in attempts:
        if attempt.purpose.value == "space check" and attempt.verdict is not None and attempt.verdict.value == "ok":
            probes += 1
            continue
        rows.append(
            (
                attempt.number,
                words.clean(attempt.route),
                attempt.purpose.value + (", rehearsal" if attempt.is_rehearsal else ""),
                attempt.verdict.value if attempt.verdict else "cancelled",
                words.clean(attempt.reason),
                attempt.status or "–",
                words.seconds(attempt.duration),
                words.clean(attempt.message, 120),
            )
        )
    if probes:
        rows.insert(
            0, ("–", f"{words.plural(probes, 'probe')}", "space check", "ok", "", "–", "", "once for each route")
        )
    return rows


def _back(error: AllProvidersFailedError) -> str:
    if error.retry_at is None:
        return "No route is known to come back by itself: change the configuration."
    if error.retry_at <= error.call.started_at + error.call.duration + 1:
        return "A route may be asked again at once."
    return f"The first route is back at {words.clock(error.retry_at)}."


def _price(price_input: float | None, price_output: float | None) -> str:
    if price_input is None:
        return "–"
    return f"USD {price_input:g} in, {price_output or 0:g} out"


def _line(line: str) -> str:
    """Masked, with its indent."""
    return line[: len(line) - len(line.lstrip())] + words.clean(line)
