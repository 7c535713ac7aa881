"""Makes Settings of the file and the environment, or finds every mistake in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path as File
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from config.document import YamlDocument, read, section
from config.environment import PREFIX, Overlay, merged, overlay
from config.errors import ConfigError, Path, Problem
from config.mistakes import Mistake, mistakes
from config.schema import Settings, SinkOptionTypes, SinkSettings, settings_type
from config.schema.process import StateSettings
from config.schema.resources import ResourceEntry, ResourceSettings, overlaps
from config.values import why_no_path

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
    of_state = {name: value for name, value in environ.items() if name.startswith(f"{PREFIX}STATE")}
    match merged(data, overlay(of_state, data, Settings).data):
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
    found = overlay(environ, document.data, known)
    written = merged(document.data, found.data)
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


def _source(path: Path, document: YamlDocument, environment: Overlay) -> str:
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
