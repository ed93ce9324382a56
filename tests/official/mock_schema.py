"""The smallest JSON that fits a response type of the openai package, made from its annotations."""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel

_MAX_DEPTH = 12
_SCALARS: tuple[tuple[type, object], ...] = (
    (bool, True),
    (int, 0),
    (float, 0.0),
    (str, "string"),
    (datetime, "2019-12-27T18:11:19.117Z"),
    (date, "2019-12-27"),
)


def minimal(annotation: object, depth: int = 0) -> object:
    """A JSON value that `annotation` accepts: first member of a union, one item in a list, required fields alone."""
    alias = getattr(annotation, "__value__", None)
    if alias is not None:
        return minimal(alias, depth)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return minimal(arguments[0], depth)
    if origin in (Union, types.UnionType):
        return _union(arguments, depth)
    if origin is Literal:
        return arguments[0]
    if origin is not None and not _is_model(annotation):
        return _container(origin, arguments, depth)
    return _plain(annotation, depth)


def _is_model(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _union(members: tuple[object, ...], depth: int) -> object:
    if depth > _MAX_DEPTH and type(None) in members:
        return None
    return minimal(next((m for m in members if m is not type(None)), None), depth + 1)


def _container(origin: object, arguments: tuple[object, ...], depth: int) -> object:
    if not isinstance(origin, type):
        return {}
    if issubclass(origin, Mapping):
        return {}
    if depth > _MAX_DEPTH or not arguments:
        return []
    return [minimal(arguments[0], depth + 1)]


def _plain(annotation: object, depth: int) -> object:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model(annotation, depth)
    if isinstance(annotation, type):
        for scalar, example in _SCALARS:
            if issubclass(annotation, scalar):
                return example
        if issubclass(annotation, list | tuple):
            return []
    return None if annotation in (None, type(None)) else {}


def _model(model: type[BaseModel], depth: int) -> dict[str, object]:
    # A field with a default factory may be absent, but the suite's own type check then refuses the None that it gets.
    fields = ((n, f) for n, f in model.model_fields.items() if f.is_required() or f.default_factory is not None)
    return {field.alias or name: minimal(field.annotation, depth + 1) for name, field in fields}
