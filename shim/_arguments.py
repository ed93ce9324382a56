"""The constructor arguments of the clients, for type checkers: the official ones and `router`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import openai

    from shim.router import Router


class Shared(TypedDict, total=False):
    """What both clients take. Names that only openai 3.x knows are refused at run time by 2.x."""

    admin_api_key: str | None
    organization: str | None
    project: str | None
    webhook_secret: str | None
    base_url: Any
    websocket_base_url: Any
    provider: Any
    workload_identity: Any
    data_residency: str | None
    timeout: float | openai.Timeout | openai.NotGiven | None
    max_retries: int
    default_headers: Mapping[str, str] | None
    default_query: Mapping[str, object] | None
    http_client: Any
    router: Router | Mapping[str, object] | str | os.PathLike[str] | Literal[False] | None
    _strict_response_validation: bool
    _enforce_credentials: bool


class Arguments(Shared, total=False):
    """Of `OpenAI`."""

    api_key: str | Callable[[], str] | None


class AsyncArguments(Shared, total=False):
    """Of `AsyncOpenAI`."""

    api_key: str | Callable[[], Awaitable[str]] | None


class Changes(Arguments, total=False):
    """Of `OpenAI.copy` and `with_options`."""

    set_default_headers: Mapping[str, str] | None
    set_default_query: Mapping[str, object] | None
    _extra_kwargs: Mapping[str, Any]


class AsyncChanges(AsyncArguments, total=False):
    """Of `AsyncOpenAI.copy` and `with_options`."""

    set_default_headers: Mapping[str, str] | None
    set_default_query: Mapping[str, object] | None
    _extra_kwargs: Mapping[str, Any]
