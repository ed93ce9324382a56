"""A router over scripted providers, for tests that do not care for the rest of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shim._run.system import Clock
from shim.testing.provider import FakeProvider

if TYPE_CHECKING:
    from shim.router import Router

FAMILY = "test"


def router_over(
    *providers: FakeProvider,
    kind: str = "chat",
    family: str = FAMILY,
    dimensions: int | None = None,
    clock: Clock | None = None,
    **policy: Any,
) -> Router:
    """A router with one family over the providers, in this order; `policy` are keys of its policy.

    The space check is off unless `space_check=True`: its probes would be the first requests that a script sees.
    Raises `ValueError` for two providers of one name, and `shim.ConfigError` as every configuration does.
    """
    from shim.router import Router

    names = [provider.name for provider in providers]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"router_over: several providers are named {twice[0]!r}; give them names of their own")
    settings: dict[str, Any] = {"kind": kind, "routes": [f"{one.name}/{one.model}" for one in providers]}
    if dimensions is not None:
        settings["dimensions"] = dimensions
    configuration = {
        "providers": {
            one.name: {"base_url": one.base_url, "api_key": f"made-up-key-of-{one.name}"} for one in providers
        },
        "families": {family: settings},
        "policy": {"space_check": False, **policy},
    }
    return Router(configuration, clock=clock)
