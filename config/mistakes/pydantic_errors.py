"""pydantic's errors → the operator's mistakes: each with its path in the file, without mere consequences of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import ErrorDetails

from config.errors import Path, nearest
from config.mistakes.wording import explained
from config.schema import Settings
from config.schema.shape import fields_at

_NOTHING = object()


class Mistake(NamedTuple):
    path: Path
    message: str


def mistakes(errors: Sequence[ErrorDetails], data: Mapping[str, Any], settings: type[Settings]) -> list[Mistake]:
    """A Mistake for each path with errors, in the order of the settings."""
    found: dict[Path, list[ErrorDetails]] = {}
    for error in errors:
        found.setdefault(_path(error, data), []).append(error)
    reported = {path: of for path, of in found.items() if not _is_consequence(path, of, found, settings, data)}
    return [Mistake(path, explained(path, of, settings, data)) for path, of in reported.items()]


def _path(error: ErrorDetails, data: Any) -> Path:
    """The value's path in the file: pydantic's location, without the members of unions in it."""
    loc = [step for step in error["loc"] if step != "[key]"]
    if loc[0] == "sinks" and len(loc) > 3 and loc[2] == _below(_below(_below(data, "sinks"), loc[1]), "type"):
        del loc[2]  # a sink's type, which may be the name of an option as well
    path: list[str | int] = []
    for index, step in enumerate(loc):
        below = _below(data, step)
        if below is not _NOTHING:
            path.append(step)
            data = below
        elif error["type"] == "missing" and index == len(loc) - 1:
            path.append(step)
    return (*path, "type") if error["type"].startswith("union_tag") else tuple(path)


def _below(data: Any, step: Any) -> Any:
    try:
        return data[step] if isinstance(data, dict | list) else _NOTHING
    except (LookupError, TypeError):
        return _NOTHING


def _is_consequence(
    path: Path, errors: list[ErrorDetails], found: Mapping[Path, Any], settings: type[Settings], data: Any
) -> bool:
    """True where the error follows from another mistake: an option is missing because its name was misspelt; a
    sink's options are wrong because its type is; a list fails as the mapping that a union also allows."""
    if path[:1] == ("sinks",) and len(path) > 2 and path[2] != "type" and (*path[:2], "type") in found:
        return True
    kinds = {error["type"] for error in errors}
    if kinds == {"missing"}:
        allowed = fields_at(settings, path[:-1], data)
        misspelt = [other[-1] for other, of in found.items() if other[:-1] == path[:-1] and _is_unknown(of)]
        return any(nearest(str(name), allowed) == path[-1] for name in misspelt)
    deeper = any(len(other) > len(path) and other[: len(path)] == path for other in found)
    # A list is also said to be too short where its only entry is wrong.
    return deeper and all(kind.endswith("_type") or kind == "too_short" for kind in kinds)


def _is_unknown(errors: Iterable[ErrorDetails]) -> bool:
    return any(error["type"] == "extra_forbidden" for error in errors)
