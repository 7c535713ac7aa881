"""The types that the settings allow at a path of the file: the fields of a mapping, the type of a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from config.errors import Path, nearest

UNKNOWN = object()
"""The type is not known, because the sink's own ``type`` is missing or wrong."""


def type_at(root: type[BaseModel], path: Path, data: Any) -> Any:
    """The type of the value at ``path``. ``data`` decides between members of a union. None where no value is
    allowed."""
    found: Any = root
    for step in path:
        found = _below(found, step, data)
        data = data.get(step) if isinstance(data, Mapping) else None
        if found is None or found is UNKNOWN:
            return found
    return found


def fields_at(root: type[BaseModel], path: Path, data: Any) -> Mapping[str, FieldInfo]:
    """The options of the mapping at ``path``; empty where any name is allowed, or the type is not known."""
    here = type_at(root, path, data)
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    models = [each for each in _meant(here, data) if _is_model(each)]
    return {name: field for model in models for name, field in model.model_fields.items()}


def places_of(root: type[BaseModel], word: str, path: Path) -> list[str]:
    """Where the tree has an option ``word``, or one of nearly that name, beside the section at ``path``: at most three
    places, written as in ``sinks.NAME.topic`` and ``resources[].namespaces``. Sections at the top are left out, since
    their names are everyday words."""
    options = _every_option(root)
    names = {option[-1] for option in options}
    meant = word.lower() if word.lower() in names else nearest(word, names, cutoff=0.85)
    here = tuple("[]" if isinstance(step, int) else step for step in path)
    found = [option for option in options if option[-1] == meant and len(option) > 1 and not _is_of(option[:-1], here)]
    return [".".join(option).replace(".[]", "[]") for option in sorted(found, key=len)[:3]]


def _is_of(section: tuple[str, ...], here: tuple[str, ...]) -> bool:
    return len(section) == len(here) and all(a in ("NAME", b) for a, b in zip(section, here, strict=True))


@cache
def _every_option(root: type[BaseModel]) -> tuple[tuple[str, ...], ...]:
    """The path of every option. ``NAME`` stands for any name, ``[]`` for any entry of a list."""
    return tuple(dict.fromkeys(_under(root, ())))


def _under(annotation: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for each in _options(annotation):
        if _is_model(each):
            for name, field in each.model_fields.items():
                yield (*path, name)
                yield from _under(field.annotation, (*path, name))
        elif _is_collection(each) and (arguments := get_args(each)):
            is_mapping = issubclass(get_origin(each) or each, Mapping)
            yield from _under(arguments[-1 if is_mapping else 0], (*path, "NAME" if is_mapping else "[]"))


def types_at(root: type[BaseModel], path: Path, data: Any) -> tuple[str, ...]:
    """The allowed values of ``type`` in the mapping at ``path``."""
    return tuple(tag for each in _options(type_at(root, path, data)) for tag in _tags(each))


def model_of(annotation: Any) -> type[BaseModel] | None:
    """The section's class, for an option that is a section; None for a plain value."""
    found: type[BaseModel] | None = next((each for each in _options(annotation) if _is_model(each)), None)
    return found


def item_model_of(annotation: Any) -> type[BaseModel] | None:
    """The section's class of each item, for an option that is a list of sections; None for any other option."""
    lists = [each for each in _options(annotation) if _is_collection(each) and get_origin(each) is not Mapping]
    return next((found for each in lists if get_args(each) and (found := model_of(get_args(each)[0]))), None)


def words_of(annotation: Any) -> list[str]:
    """The members of a closed set of words; empty for any other type."""
    enums = [each for each in _options(annotation) if isinstance(each, type) and issubclass(each, StrEnum)]
    return [word.value for each in enums for word in each]


def is_composite(annotation: Any) -> bool:
    """Whether only a list or a mapping can have this type."""
    options = [each for each in _options(annotation) if each is not NoneType]
    return bool(options) and all(_is_model(each) or _is_collection(each) for each in options)


def is_number(annotation: Any) -> bool:
    """Whether only a number or a boolean can have this type, and no text."""
    options = [each for each in _options(annotation) if each is not NoneType]
    return bool(options) and all(each in (int, float, bool) for each in options)


def _below(annotation: Any, step: str | int, data: Any) -> Any:
    options = _meant(annotation, data)
    if not options:
        return UNKNOWN
    for each in options:
        if _is_model(each) and step in each.model_fields:
            field = each.model_fields[step]
            # pydantic takes Annotated apart: the constraints are in metadata, beside the bare type.
            return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        if _is_collection(each) and issubclass(get_origin(each) or each, Mapping) == isinstance(step, str):
            arguments = get_args(each)
            return (arguments[1] if isinstance(step, str) else arguments[0]) if arguments else UNKNOWN
    return None


def _meant(annotation: Any, data: Any) -> list[Any]:
    """The members of a union that ``data`` can mean: of models with a ``type``, the models of the written type."""
    options = list(_options(annotation))
    tagged = [each for each in options if _tags(each)]
    if not tagged:
        return options
    written = data.get("type") if isinstance(data, Mapping) else None
    return [each for each in tagged if written in _tags(each)]


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
