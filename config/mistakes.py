"""Turns pydantic's errors into the operator's mistakes: each with its path in the file, the value that was found and
the values that are allowed.

An error that only follows from another one is left out: a missing option whose name was misspelt, the options of a sink
whose type is wrong, a list that fails as the mapping which a union also allows. A value that may be a secret, by its
type or by a name on its path, is not shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import SecretBytes, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from config.errors import Path, nearest, unknown
from config.schema import Settings
from config.schema.shape import fields_at, places_of, types_at

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


# ── Words ────────────────────────────────────────────────────────────────────

_SECRET = re.compile(
    r"pass(?:word|wd|phrase)?|secret|token|credential|private|api_?key|auth|header|signature", re.IGNORECASE
)
_ADDRESS = re.compile(r"(?<=://)(?:[^/@\s]*@)?([^/?#\s]*)\S*")
_LONGEST_SHOWN = 80
_MOST_MEMBERS = 8
"""Options of a mapping that are named where something else was found."""

_WANTED = {
    "string_type": "text is expected (in quotes, where it looks like something else)",
    "path_type": "a path is expected",
    "int_type": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "int_from_float": "a whole number is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "finite_number": "a finite number is expected",
    "bool_type": "true or false is expected",
    "bool_parsing": "true or false is expected",
    "tuple_type": "a list is expected",
    "list_type": "a list is expected",
    "set_type": "a list is expected",
    "dict_type": "a mapping is expected",
    "mapping_type": "a mapping is expected",
    "model_type": "a mapping is expected",
    "model_attributes_type": "a mapping is expected",
    "string_pattern_mismatch": "it must match {pattern}",
    "string_too_short": "at least {min_length} characters are expected",
    "string_too_long": "at most {max_length} characters are expected",
    "too_short": "at least {min_length} is expected",
    "too_long": "at most {max_length} are expected",
    "greater_than": "more than {gt:g} is expected",
    "greater_than_equal": "at least {ge:g} is expected",
    "less_than": "less than {lt:g} is expected",
    "less_than_equal": "at most {le} is expected",
}


def explained(path: Path, errors: Sequence[ErrorDetails], settings: type[Settings], data: Mapping[str, Any]) -> str:
    """One message for all errors at ``path``: pydantic reports an error for each member of a union."""
    fields = fields_at(settings, path[:-1], data)
    field = fields.get(str(path[-1])) if path else None
    first = errors[0]
    match first["type"]:
        case "extra_forbidden":
            return unknown(str(path[-1]), fields, places_of(settings, str(path[-1]), path[:-1]))
        case "missing":
            return _missing(field)
        case "union_tag_not_found":
            return f"missing; {_one_of('', types_at(settings, path[:-1], data))}"
        case "union_tag_invalid":
            tag = str(first["ctx"]["tag"])
            return f"found {shown(tag)}; {_one_of(tag, types_at(settings, path[:-1], data))}"
    if first["loc"][-1] == "[key]":
        return _wanted(first)  # the path ends with the name that was found
    value = first["input"]
    wanted = " or ".join(dict.fromkeys(map(_wanted, errors)))
    if isinstance(value, Mapping) and first["type"] == "value_error":
        return wanted  # a rule between options: its message names them
    if wanted == _WANTED["model_type"]:
        members = fields_at(settings, path, data)
        wanted += f", of {', '.join(members)}" if 0 < len(members) <= _MOST_MEMBERS else ""
        if isinstance(value, str):
            return f"found text; {wanted}"  # The text may be a secret that belongs into the mapping.
    if not is_secret(path, field):
        return f"found {shown(value)}; {wanted}"
    if isinstance(value, str) and value:
        wanted = wanted.replace(value, "…")
    return f"found a value (not shown); {wanted}"


def is_secret(path: Path, field: FieldInfo | None) -> bool:
    """Whether a value may be a secret, by its type or by a name on its path. The value of a ``*_file`` option is a
    path, and so no secret."""
    annotation = str(field.annotation) if field else ""
    if SecretStr.__name__ in annotation or SecretBytes.__name__ in annotation:
        return True
    return any(isinstance(step, str) and not step.endswith("_file") and _SECRET.search(step) for step in path[1:])


def shown(value: Any) -> str:
    """A value in the operator's notation: short, without the inside of lists and mappings. Of an address the host
    alone, since the rest may hold credentials."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            text = _ADDRESS.sub(r"\1/…", value)
            return f'"{text[:_LONGEST_SHOWN]}…"' if len(text) > _LONGEST_SHOWN else f'"{text}"'
        case int() | float():
            return str(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return f"a list of {len(value)}"
        case _:
            return f"a value of type {type(value).__name__}"


def _missing(field: FieldInfo | None) -> str:
    if field is None:
        return "missing"
    example = f", such as {field.examples[0]}" if field.examples else ""
    return f"missing{example}: {field.description or ''}".rstrip(": ")


def _wanted(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "value_error" | "assertion_error":
            return str(context["error"])
        case "enum" | "literal_error":
            return _one_of(str(error["input"]), re.findall(r"'([^']*)'", str(context["expected"])))
        case kind if kind in _WANTED:
            return _WANTED[kind].format_map(context)
        case _:
            return error["msg"]


def _one_of(word: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    close = nearest(word, names)
    guess = f'did you mean "{close}"? ' if close and close != word else ""
    return f"{guess}allowed: {', '.join(names)}"
