"""What the settings' types allow at a place in the file: the fields of a mapping, the type of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from config.errors import Path

UNKNOWN = object()
"""The type cannot be told, because the sink's own ``type`` is missing or wrong."""


def type_at(root: type[BaseModel], path: Path, data: Any) -> Any:
    """The type of the value at ``path``, given what else is written in ``data``; None where nothing may stand."""
    found: Any = root
    for step in path:
        found = _below(found, step, data)
        data = data.get(step) if isinstance(data, Mapping) else None
        if found is None or found is UNKNOWN:
            return found
    return found


def fields_at(root: type[BaseModel], path: Path, data: Any) -> Mapping[str, FieldInfo]:
    """What may be written in the mapping at ``path``; empty where names are free or nothing is known."""
    here = type_at(root, path, data)
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    models = [one for one in _meant(here, data) if _is_model(one)]
    return {name: field for model in models for name, field in model.model_fields.items()}


def types_at(root: type[BaseModel], path: Path, data: Any) -> tuple[str, ...]:
    """What ``type`` may be in the mapping at ``path``."""
    return tuple(tag for one in _options(type_at(root, path, data)) for tag in _tags(one))


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The section that an option of this type is; None for a plain value."""
    found: type[BaseModel] | None = next((one for one in _options(annotation) if _is_model(one)), None)
    return found


def words_of(annotation: Any) -> list[str]:
    """The members of a closed set of words; empty for any other type."""
    enums = [one for one in _options(annotation) if isinstance(one, type) and issubclass(one, StrEnum)]
    return [word.value for one in enums for word in one]


def is_composite(annotation: Any) -> bool:
    """True for a type that only a list or a mapping can be a value of."""
    options = [one for one in _options(annotation) if one is not NoneType]
    return bool(options) and all(_is_model(one) or _is_collection(one) for one in options)


def is_number(annotation: Any) -> bool:
    """True for a type of numbers, or of true and false, that no text can be a value of."""
    options = [one for one in _options(annotation) if one is not NoneType]
    return bool(options) and all(one in (int, float, bool) for one in options)


def _below(annotation: Any, step: str | int, data: Any) -> Any:
    options = _meant(annotation, data)
    if not options:
        return UNKNOWN
    for one in options:
        if _is_model(one) and step in one.model_fields:
            field = one.model_fields[step]
            return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        if _is_collection(one) and issubclass(get_origin(one) or one, Mapping) == isinstance(step, str):
            arguments = get_args(one)
            return (arguments[1] if isinstance(step, str) else arguments[0]) if arguments else UNKNOWN
    return None


def _meant(annotation: Any, data: Any) -> list[Any]:
    """The members of a union that ``data`` can mean: of models told apart by ``type``, those with its type."""
    options = list(_options(annotation))
    tagged = [one for one in options if _tags(one)]
    if not tagged:
        return options
    written = data.get("type") if isinstance(data, Mapping) else None
    return [one for one in tagged if written in _tags(one)]


def _tags(annotation: Any) -> tuple[Any, ...]:
    field = annotation.model_fields.get("type") if _is_model(annotation) else None
    return get_args(field.annotation) if field and get_origin(field.annotation) is Literal else ()


def _options(annotation: Any) -> Iterator[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _options(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _options(each)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_collection(annotation: Any) -> bool:
    origin = get_origin(annotation) or annotation
    if not isinstance(origin, type) or issubclass(origin, str | bytes):
        return False
    return issubclass(origin, Mapping | Set | Sequence) and not hasattr(origin, "_fields")  # an Address is text
