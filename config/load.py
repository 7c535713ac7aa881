"""Makes Settings of the file and the environment, or finds every mistake in them.

``KUBEDELTA__SECTION__FIELD`` sets an option over the file. The part behind the prefix is a path, in any case. For an
option that is text or a word, the variable's value is taken literally; for a number, a list or a mapping, the value is
YAML: ``KUBEDELTA__RESOURCES='[pods, jobs.batch]'``. A sink named ``audit-log`` may be spelt ``AUDIT_LOG``, since shells
allow no '-'. Variables ``KUBEDELTA_…`` with a single underscore are no options: Kubernetes sets such variables for a
Service called kubedelta. (``KUBEDELTA_CONFIG`` names the file of a command.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from config.document import YamlDocument, plain, read, section
from config.errors import ConfigError, Path, Problem, dotted, nearest, quoted, unknown
from config.mistakes import Mistake, mistakes
from config.schema import Settings, SinkOptionTypes, SinkSettings, settings_type
from config.schema.process import StateSettings
from config.schema.resources import ResourceEntry, ResourceSettings, overlaps
from config.schema.shape import UNKNOWN, fields_at, is_composite, is_number, places_of, type_at
from config.values import why_no_path

_PREFIX = "KUBEDELTA__"
_ENTRY: TypeAdapter[ResourceSettings] = TypeAdapter(ResourceEntry)


def load(path: File, environ: Mapping[str, str], sink_options: SinkOptionTypes) -> Settings:
    """Settings from the YAML file at ``path`` with the ``KUBEDELTA__…`` variables of ``environ`` laid over it.

    ``sink_options`` maps each type of sink to its options. Relative paths, from the file or from a variable, are
    resolved in the file's folder; ``~`` is the home folder; ``-`` stays ``-``. Files with secrets stay unopened here.
    Raises ConfigError with a problem for each mistake.
    """
    document = read(path)
    settings = judged(document, environ, settings_type(sink_options))
    if homeless := list(_unusable(settings, (), _why_no_home)):
        raise ConfigError([Problem(document.source(each.path), *each) for each in homeless])
    # Without validation: the values are valid, and pydantic-settings would read the environment of the process again.
    return Settings.model_construct(**_located(dict(settings), path.absolute().parent))


def state_directory(path: File, environ: Mapping[str, str]) -> File | None:
    """``state.directory`` as ``load`` would have it, of a file that may be wrong in every other place: unknown options,
    missing sections, no YAML outside of the section ``state``. None if it is not known."""
    try:
        data = {"state": read(path).data.get("state")}
    except ConfigError:
        try:
            data = {"state": section(path, "state")}
        except ConfigError:
            data = {}
    of_state = {name: value for name, value in environ.items() if name.startswith(f"{_PREFIX}STATE")}
    match _merged(data, _overlay(of_state, data, Settings).data):
        case {"state": {"directory": str(written)}} if not why_no_path(File(written)):
            directory = File(written)
        case {"state": None} | {"state": {"directory": None}}:
            directory = StateSettings().directory
        case {"state": Mapping() as state} if data and "directory" not in state:
            directory = StateSettings().directory
        case _:
            return None
    if _why_no_home(directory):
        return None
    located: File = _located(directory, path.absolute().parent)
    return located


def judged(document: YamlDocument, environ: Mapping[str, str], known: type[Settings]) -> Settings:
    """Like ``load``, for a file that was read and a settings type that was made; paths stay as written."""
    found = _overlay(environ, document.data, known)
    written = _merged(document.data, found.data)
    # YAML reads a section whose every line is commented out as null: the section takes its defaults.
    data = {name: value for name, value in written.items() if value is not None or name not in known.model_fields}
    wrong = _overlaps(data)
    try:
        settings = _validated(known, data)
    except ValidationError as error:
        wrong = [*mistakes(error.errors(), data, known), *wrong]
    else:
        wrong = [*wrong, *_unusable(settings, (), why_no_path)]
    problems = [*document.problems, *found.problems]
    wrong.sort(key=lambda mistake: document.line(mistake.path))
    problems += [Problem(_source(each.path, document, found), *each) for each in wrong]
    if problems:
        raise ConfigError(problems)
    return settings


def _source(path: Path, document: YamlDocument, environment: _Overlay) -> str:
    """The source of the value at ``path``; for a missing value, the source of the section around it."""
    above = path[:-1]
    alone = environment.variable_below(above) if above and above not in document.lines else None
    return environment.variable(path) or alone or document.source(path)


def _validated(known: type[Settings], data: dict[str, Any]) -> Settings:
    """Of ``data`` alone: the constructor of pydantic-settings would also read variables of its own naming."""
    settings = known.__new__(known)
    BaseModel.__init__(settings, **data)
    return settings


def _overlaps(data: Mapping[str, Any]) -> list[Mistake]:
    """A mistake for each two entries of ``resources`` that may mean the same object. Invalid entries are skipped: they
    have a mistake of their own."""
    entries: dict[int, ResourceSettings] = {}
    written = data.get("resources")
    for index, entry in enumerate(written if isinstance(written, list) else []):
        with suppress(ValidationError):
            entries[index] = _ENTRY.validate_python(entry)
    indexes = list(entries)
    return [
        Mistake(
            ("resources", indexes[there]),
            f"{entries[indexes[there]].resource} may mean the same objects as resources[{indexes[here]}] "
            f"({entries[indexes[here]].resource}); an object belongs to one entry: join the two, or give them "
            "different namespaces",
        )
        for here, there in overlaps(list(entries.values()))
    ]


def _unusable(value: Any, path: Path, why: Callable[[File], str]) -> Iterator[Mistake]:
    """A mistake for each path in ``value`` to which ``why`` returns a reason."""
    match value:
        case File():
            if reason := why(value):
                yield Mistake(path, reason)
        case BaseModel():
            for name in type(value).model_fields:
                # A sink's own options stand beside the common ones.
                beside = isinstance(value, SinkSettings) and name == "options"
                yield from _unusable(getattr(value, name), path if beside else (*path, name), why)
        case list() | tuple():
            for index, each in enumerate(value):
                yield from _unusable(each, (*path, index), why)
        case Mapping():
            for name, each in value.items():
                yield from _unusable(each, (*path, name), why)


def _why_no_home(path: File) -> str:
    try:
        path.expanduser()
    except RuntimeError:
        return f"{path.parts[0]} is the home folder of a user who is not known on this machine"
    return ""


def _located(value: Any, folder: File) -> Any:
    """``value``, with every relative path in it resolved in ``folder``."""
    match value:
        case File():
            return value if str(value) == "-" else folder / value.expanduser()
        case BaseModel():
            fields = {name: _located(getattr(value, name), folder) for name in type(value).model_fields}
            return value.model_copy(update=fields)
        case list() | tuple() if type(value) in (list, tuple):
            return type(value)(_located(each, folder) for each in value)
        case dict():
            return {name: _located(each, folder) for name, each in value.items()}
    return value


# ── The environment ──────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Overlay:
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


def _overlay(environ: Mapping[str, str], file: Mapping[str, Any], settings: type[Settings]) -> _Overlay:
    """Reads every ``KUBEDELTA__…`` variable. A variable that names no option becomes a Problem with its name."""
    found = _Overlay()
    paths = {name: _path(name, file) for name in environ if name.startswith(_PREFIX)}
    for name, path in sorted(paths.items(), key=_order):
        below = _merged(file, found.data)
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


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """``over`` laid on ``under``: mappings are joined, anything else is replaced."""
    both = dict(under)
    for name, value in over.items():
        old = both.get(name)
        both[name] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def _path(variable: str, file: Mapping[str, Any]) -> Path:
    steps = variable.removeprefix(_PREFIX).lower().split("__")
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
        f"name, set {_PREFIX}SINKS__{str(path[1]).upper()}__TYPE"
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
    data[str(last)] = _merged(value, old) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
