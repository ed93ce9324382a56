"""One real call on one route with one key, and what it tells: reachable, key accepted, length, vector space."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import openai

from shim import Attempt, Kind, OpenAI, Router, Scope, Verdict, attempts
from shim.cli.spaces import figure_of, kept_spaces
from shim.cli.tables import printable
from shim.config import Config, FamilyConfig, ProviderConfig, RouteConfig

TEXT = "The ferry leaves at noon."
AT_ONCE = 4
"""Families checked at the same time. The routes of one go one after the other, since the first sets the space."""

_UNREACHED = frozenset({"connect", "connect_timeout", "tls", "reset", "protocol", "timeout"})
_KEY_SCOPES = frozenset({Scope.KEY, Scope.KEY_MODEL, Scope.ACCOUNT})
_DOUBT = 0.05  # noise over separation above which a route joins with a warning


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a route after a call on it. `key` is an alias. None stands for what could not be found out.

    `is_good` None: the route is switched off, or its kind has no call that is cheap enough. `seconds` is the time of
    the attempt with its space check, `noise` the figure of the space check (0 for the route that set the space).
    """

    family: str
    kind: str
    route: str
    key: str
    is_good: bool | None
    words: str
    is_reachable: bool | None = None
    is_key_accepted: bool | None = None
    dimensions: int | None = None
    space: str = ""
    noise: float | None = None
    seconds: float | None = None
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Asking:
    """What to check and for how long: `timeout` is seconds a route, `with_chat` whether chat routes cost a token."""

    config: Config
    timeout: float
    with_chat: bool


def check_all(asking: Asking) -> list[Checked]:
    """Every route of the configuration with each of its keys, in the order written."""
    families = list(asking.config.families.values())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [line for lines in pool.map(lambda family: _family(asking, family), families) for line in lines]


def _family(asking: Asking, family: FamilyConfig) -> list[Checked]:
    lines = [line for index in range(_most_keys(asking.config, family)) for line in _with_key(asking, family, index)]
    order = {route.route: place for place, route in enumerate(family.routes)}
    return sorted(lines, key=lambda line: order[line.route])


def _most_keys(config: Config, family: FamilyConfig) -> int:
    return max(1, *(len(config.providers[route.provider].keys) for route in family.routes))


def _with_key(asking: Asking, family: FamilyConfig, index: int) -> Iterator[Checked]:
    """The routes of a family, each with its key of that number, where there is one."""
    config = _narrowed(asking, family, index)
    with OpenAI(router=Router(config), timeout=asking.timeout, max_retries=0) as client:
        for route in family.routes:
            provider = asking.config.providers[route.provider]
            if index == 0 or index < len(provider.keys):
                yield _route(asking, client, family, route, config.providers[route.provider])


def _narrowed(asking: Asking, family: FamilyConfig, index: int) -> Config:
    """The configuration with one key a provider, and this family alone, without races or longer waits."""
    policy = family.policy.model_copy(
        update={"mode": "sequential", "attempt_timeout": asking.timeout, "when_exhausted": "fail"}
    )
    providers = {
        name: provider.model_copy(update={"keys": provider.keys[index : index + 1] or provider.keys[:1]})
        for name, provider in asking.config.providers.items()
    }
    alone = family.model_copy(update={"policy": policy, "fallback": ()})
    return asking.config.model_copy(
        update={
            "providers": providers,
            "families": {family.name: alone},
            "default_chat": None,
            "default_embedding": None,
        }
    )


def _route(
    asking: Asking, client: OpenAI, family: FamilyConfig, route: RouteConfig, provider: ProviderConfig
) -> Checked:
    key = provider.keys[0].alias if provider.keys else ""
    line = Checked(family.name, family.kind.value, route.route, key, None, "")
    if not (route.enabled and provider.enabled):
        return replace(line, words="switched off in the configuration")
    if not provider.is_usable:
        return replace(line, is_good=False, words=f"no key: set {provider.missing or 'api_key'}")
    if family.kind is Kind.EMBEDDING:
        return _embedding(client, family, line)
    if family.kind is not Kind.CHAT:
        return replace(line, words=f"not checked: no {family.kind.value} call is cheap enough")
    if not asking.with_chat:
        return replace(line, words="not checked: --no-chat")
    return _chat(client, line)


def _embedding(client: OpenAI, family: FamilyConfig, line: Checked) -> Checked:
    _forget(client)
    try:
        answer = client.embeddings.create(model=line.family, input=TEXT, extra_headers={"x-shim-route": line.route})
    except openai.OpenAIError as error:
        return _told(line, attempts(error), str(error))
    line = _told(line, attempts(answer), "")
    line = replace(line, dimensions=len(answer.data[0].embedding))
    return _spaced(line, client, family)


def _chat(client: OpenAI, line: Checked) -> Checked:
    """One token. Where that is refused as a parameter the newer name of the limit is tried, once."""
    line_or_error = line
    for limit in ("max_tokens", "max_completion_tokens"):
        _forget(client)
        try:
            answer = client.chat.completions.create(
                model=line.family,
                messages=[{"role": "user", "content": "Say hi."}],
                extra_headers={"x-shim-route": line.route},
                extra_body={limit: 1 if limit == "max_tokens" else 16},
            )
        except openai.OpenAIError as error:
            line_or_error = _told(line, attempts(error), str(error))
            if "max_tokens" not in line_or_error.words:
                return line_or_error
        else:
            return _told(line, attempts(answer), "")
    return line_or_error


def _forget(client: OpenAI) -> None:
    """What befell another route of the same provider or key must not keep this one from being asked."""
    if client.router is not None:
        client.router.reset()


def _told(line: Checked, made: tuple[Attempt, ...], otherwise: str) -> Checked:
    """What the attempts of a call tell; the last is the call itself, the others are probes of the space check."""
    if not made:
        return replace(line, is_good=False, words=printable(otherwise) or "no attempt was made")
    last = made[-1]
    is_good = last.verdict is Verdict.OK
    status = f"HTTP {last.status}: " if last.status is not None and not is_good else ""
    words = "" if is_good else f"{status}{printable(last.message) or last.reason}"
    if last.reason == "space" and not is_good:
        line = replace(line, space="refused")
    return replace(
        line,
        is_good=is_good,
        words=words,
        is_reachable=last.reason not in _UNREACHED or last.status is not None,
        is_key_accepted=_accepted(line, last, made),
        seconds=last.duration,
        tokens=sum((one.input_tokens or 0) + (one.output_tokens or 0) for one in made),
    )


def _accepted(line: Checked, last: Attempt, made: tuple[Attempt, ...]) -> bool | None:
    if not line.key:
        return None
    if any(one.verdict is Verdict.OK for one in made):
        return True
    if last.verdict is Verdict.BROKEN and last.scope in _KEY_SCOPES and last.status in (401, 403):
        return False
    return True if last.status == 402 else None


def _spaced(line: Checked, client: OpenAI, family: FamilyConfig) -> Checked:
    """The figure that the space check left on disk, in numbers and words."""
    config = client.router.config if client.router is not None else None
    if config is None or sum(_can_serve(config, route) for route in family.routes) < 2:
        return replace(line, space="only route")
    route = next(route for route in family.routes if route.route == line.route)
    wanted = family.policy.space_check if route.space_check is None else route.space_check
    if not wanted:
        return replace(line, space="check is off")
    known = figure_of(kept_spaces(config, family), line.route)
    if known is None:
        return replace(line, space="checked")
    noise, is_reference = known
    words = "" if noise <= _DOUBT else f"joins with a doubt: noise over separation {noise:.2g}, over {_DOUBT}"
    return replace(line, space="reference" if is_reference else "same", noise=noise, words=line.words or words)


def _can_serve(config: Config, route: RouteConfig) -> bool:
    return route.enabled and config.providers[route.provider].is_usable
