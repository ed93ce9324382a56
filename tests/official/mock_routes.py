"""Which response type each path of the API has, read from the source of the installed openai package.

The suite's own mock server needs an OpenAPI document that no release contains; the package's resource methods say
the same things: `self._post("/embeddings", …, cast_to=CreateEmbeddingResponse)`.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import get_args

_VERBS = {"_get": "GET", "_post": "POST", "_put": "PUT", "_patch": "PATCH", "_delete": "DELETE", "_get_api_list": "GET"}
# Their cast_to is computed from the caller's `response_format`; the tests leave it at JSON.
_COMPUTED = {
    "/audio/transcriptions": "openai.types.audio:Transcription",
    "/audio/translations": "openai.types.audio:Translation",
}


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """One method and path: what comes back, and what each event is when the request asks for a stream."""

    method: str
    template: str
    answer: object
    event: object | None

    def matches(self, method: str, path: str) -> bool:
        """Whether this route serves `path` (no query, no host)."""
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.template))
        return method == self.method and re.fullmatch(pattern, path) is not None


def api_routes() -> tuple[ApiRoute, ...]:
    """Every route of the installed openai package, those with the fewest placeholders first."""
    package = importlib.import_module("openai.resources")
    found: list[ApiRoute] = []
    for info in pkgutil.walk_packages(package.__path__, "openai.resources."):
        found.extend(_routes_of(importlib.import_module(info.name)))
    return tuple(sorted(found, key=lambda route: (route.template.count("{"), "Beta" in repr(route.answer))))


def _routes_of(module: ModuleType) -> Iterator[ApiRoute]:
    with open(str(module.__file__), encoding="utf-8") as source:
        tree = ast.parse(source.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VERBS:
            route = _route(node, node.func.attr, module)
            if route is not None:
                yield route


def _route(call: ast.Call, verb: str, module: ModuleType) -> ApiRoute | None:
    template = _template(call.args[0]) if call.args else None
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if template is None or _is_async(keywords):
        return None
    method = _VERBS[verb]
    if isinstance(keywords.get("method"), ast.Constant):
        method = str(ast.literal_eval(keywords["method"])).upper()
    answer = _computed(template) or _value(keywords.get("page") or keywords.get("cast_to"), module)
    stream = _value(keywords.get("stream_cls"), module)
    return ApiRoute(method, template, answer, next(iter(get_args(stream)), None))


def _is_async(keywords: dict[str | None, ast.expr]) -> bool:
    return any("Async" in ast.unparse(keywords[name]) for name in ("page", "stream_cls") if name in keywords)


def _template(node: ast.expr) -> str | None:
    if isinstance(node, ast.Call) and node.args:
        return _template(node.args[0])
    if isinstance(node, ast.JoinedStr):
        parts = (p.value if isinstance(p, ast.Constant) else "{x}" for p in node.values)
        return "".join(str(p) for p in parts).split("?")[0]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split("?")[0]
    return None


def _computed(template: str) -> object | None:
    if template not in _COMPUTED:
        return None
    module, _, name = _COMPUTED[template].partition(":")
    found: object = getattr(importlib.import_module(module), name)
    return found


def _value(node: ast.expr | None, module: ModuleType) -> object | None:
    if node is None:
        return None
    try:
        value: object = eval(ast.unparse(node), dict(vars(module)))
    except NameError:  # it names a local variable of the method: nothing is known about the answer
        return None
    return value
