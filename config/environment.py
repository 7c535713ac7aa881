"""``KUBEDELTA__SECTION__FIELD``: options from environment variables, as a mapping in the form of the file.

The part behind the prefix is a path, in any case. For an option that is text or a word, the variable's value is taken
literally; for a number, a list or a mapping, the value is YAML: ``KUBEDELTA__RESOURCES='[pods, jobs.batch]'``.
A sink named ``audit-log`` may be spelt ``AUDIT_LOG``, since shells allow no '-'. Variables ``KUBEDELTA_…`` with a
single underscore are no options: Kubernetes sets such variables for a Service called kubedelta. (``KUBEDELTA_CONFIG``
names the file of a command.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from config.document import plain
from config.errors import ConfigError, Path, Problem, dotted, nearest, quoted, unknown
from config.schema import Settings
from config.schema.shape import UNKNOWN, fields_at, is_composite, is_number, places_of, type_at

PREFIX = "KUBEDELTA__"


@dataclass(slots=True)
class Overlay:
    """Options that environment variables set."""

    data: dict[str, Any] = field(default_factory=dict)
    variables: dict[Path, str] = field(default_factory=dict)
    """Path → the variable that set the value there."""
    problems: list[Problem] = field(default_factory=list)

    def variable(self, path: Path) -> str | None:
        """The variable that set the value at ``path``, or a section around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.variables:
                return self.variables[path[:length]]
        return None

    def variable_below(self, path: Path) -> str | None:
        """A variable that set an option inside the mapping at ``path``."""
        return next((name for set_at, name in self.variables.items() if set_at[: len(path)] == path), None)


def overlay(environ: Mapping[str, str], file: Mapping[str, Any], settings: type[Settings]) -> Overlay:
    """Reads every ``KUBEDELTA__…`` variable. A variable that names no option becomes a Problem with its name."""
    found = Overlay()
    paths = {name: _path(name, file) for name in environ if name.startswith(PREFIX)}
    for name, path in sorted(paths.items(), key=_order):
        below = merged(file, found.data)
        if why := _no_such_sink(path, below):
            found.problems.append(Problem(name, path, why))
            continue
        kind = type_at(settings, path, below)
        if kind is None:
            found.problems.append(Problem(name, path, _unknown(path, settings, below)))
            continue
        value: Any = environ[name]
        if kind is not UNKNOWN and (is_composite(kind) or is_number(kind)):
            try:
                value = plain(value, name)
            except ConfigError as error:
                found.problems += [Problem(name, path, each.message) for each in error.problems]
                continue
        _put(found.data, path, value)
        found.variables[path] = name
    return found


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``under``: mappings are joined, anything else is replaced."""
    both = dict(under)
    for name, value in over.items():
        old = both.get(name)
        both[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def _path(variable: str, file: Mapping[str, Any]) -> Path:
    steps = variable.removeprefix(PREFIX).lower().split("__")
    sinks = file.get("sinks")
    if steps[0] == "sinks" and len(steps) > 1 and isinstance(sinks, Mapping):
        steps[1] = _sink(steps[1], sinks)
    return tuple(steps)


def _sink(name: str, known: Iterable[Any]) -> str:
    alike = [each for each in known if isinstance(each, str) and each.replace("-", "_") == name.replace("-", "_")]
    # Only if one sink can be meant: a-b and a_b may both exist.
    return name if name in alike or len(alike) != 1 else alike[0]


def _order(variable: tuple[str, Path]) -> tuple[bool, int, str]:
    """Sort key: a sink's type first, since its options depend on the type; then a mapping before its own options."""
    name, path = variable
    return path[-1] != "type", len(path), name


def _no_such_sink(path: Path, data: Mapping[str, Any]) -> str:
    """Why a variable for one option of a sink has none to configure; empty if it has one. A sink that stands in
    variables alone has a variable for its type, which is read before its other options."""
    sinks = data.get("sinks")
    if path[0] != "sinks" or len(path) < 3 or path[2] == "type" or not isinstance(sinks, Mapping) or path[1] in sinks:
        return ""
    close = nearest(str(path[1]), map(str, sinks))
    guess = f"did you mean {quoted(close)}? " if close else ""
    return (
        f"there is no sink {path[1]}; {guess}the sinks are {', '.join(map(str, sinks)) or 'none'}; for a sink of this "
        f"name, set {PREFIX}SINKS__{str(path[1]).upper()}__TYPE"
    )


def _unknown(path: Path, settings: type[Settings], data: Mapping[str, Any]) -> str:
    known = 0
    while type_at(settings, path[: known + 1], data) is not None:
        known += 1
    allowed = fields_at(settings, path[:known], data)
    if allowed:
        return unknown(str(path[known]), allowed, places_of(settings, str(path[known]), path[:known]))
    return f"unknown; {dotted(path[:known])} can be set as a whole only"


def _put(data: dict[str, Any], path: Path, value: Any) -> None:
    *above, last = path
    for step in above:
        inner = data.get(str(step))
        if not isinstance(inner, dict):
            inner = data[str(step)] = {}
        data = inner
    old = data.get(str(last))
    # A sink's type is set before the sink's own mapping (see ``_order``), and wins over the type in that mapping.
    data[str(last)] = merged(value, old) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
