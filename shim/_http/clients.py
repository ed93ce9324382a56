"""Makes the SDK's own HTTP client fit for loops, forks and load, without replacing the object.

Its class is exchanged for a subclass that picks the connections of the running loop and process, and that does not
schedule its own closing when it is collected: in a long-lived loop that closing removes the readers of file descriptors
which other clients have been given meanwhile, and their calls hang (openai-python issue 2440).
"""

from __future__ import annotations

import contextlib
import weakref
from functools import cache
from typing import Any

from shim._http.building import Builder
from shim._http.flavour import Flavour
from shim._http.pools import Pools

_PLACE = "_shim_pools"
_BUILDER = "_shim_builder"
_OF_CALLERS: weakref.WeakKeyDictionary[Any, Pools] = weakref.WeakKeyDictionary()


def pools_of(client: Any, flavour: Flavour, *, is_ours: bool) -> Pools:
    """The pools of an HTTP client; made once and shared by all copies of the OpenAI client. `is_ours` when the SDK made
    it: a client that the caller handed in is not touched."""
    known: Pools | None = getattr(client, _PLACE, None)
    if known is not None:
        return known
    if not is_ours:
        found = _OF_CALLERS.get(client)
        if found is None:
            found = _OF_CALLERS[client] = Pools(client, flavour.module.URL, None)
        return found
    original: Any = type(client)
    settings = _settings(client)
    pools = Pools(client, flavour.module.URL, lambda: _plain(original)(**settings))
    setattr(client, _PLACE, pools)
    setattr(client, _BUILDER, Builder(client, flavour))
    client.__class__ = _async_face(original) if hasattr(client, "aclose") else _sync_face(original)
    return pools


def _settings(client: Any) -> dict[str, Any]:
    settings = {"base_url": client.base_url, "timeout": client.timeout}
    context = getattr(getattr(client._transport, "_pool", None), "_ssl_context", None)
    if context is not None:
        settings["verify"] = context  # one TLS context for all: making one costs more than fifty calls
    return settings


@cache
def _plain(original: Any) -> Any:
    """The SDK's class without its `__del__`."""
    return type(original.__name__, (original,), {"__del__": lambda self: None})


def _building(original: Any) -> Any:
    """The library's `build_request`, by the quick way where it is the plain case."""

    def build_request(self: Any, *arguments: Any, **named: Any) -> Any:
        builder = getattr(self, _BUILDER)
        if not arguments and not builder.is_off:
            made = builder.build(self, original.build_request, named)
            if made is not None:
                return made
        return original.build_request(self, *arguments, **named)

    return build_request


@cache
def _sync_face(original: Any) -> Any:
    def transport_for(self: Any, url: Any) -> Any:
        client = getattr(self, _PLACE).local_client()
        return original._transport_for_url(client, url)

    def close(self: Any) -> None:
        for sibling in getattr(self, _PLACE).siblings():
            sibling.close()
        original.close(self)

    def collected(self: Any) -> None:
        with contextlib.suppress(Exception):
            if not self.is_closed:
                self.close()

    members = {
        "_transport_for_url": transport_for,
        "build_request": _building(original),
        "close": close,
        "__del__": collected,
    }
    return type(original.__name__, (original,), members)


@cache
def _async_face(original: Any) -> Any:
    def transport_for(self: Any, url: Any) -> Any:
        client = getattr(self, _PLACE).local_client()
        return original._transport_for_url(client, url)

    async def aclose(self: Any) -> None:
        getattr(self, _PLACE).end_closed()
        for sibling in getattr(self, _PLACE).siblings():
            await sibling.aclose()
        await original.aclose(self)

    members = {
        "_transport_for_url": transport_for,
        "build_request": _building(original),
        "aclose": aclose,
        "__del__": lambda self: None,
    }
    return type(original.__name__, (original,), members)
