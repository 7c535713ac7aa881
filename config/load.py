"""File and environment to Settings, or to every mistake in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path as File
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_settings import InitSettingsSource, PydanticBaseSettingsSource

from config.document import Document, read
from config.environment import Overlay, merged, overlay
from config.errors import ConfigError, Path, Problem
from config.mistakes import Mistake, mistakes
from config.resources import ResourceEntry, ResourceSettings, overlaps
from config.schema import Settings, SinkSettings
from config.sinks import SinkOptionTypes, settings_type
from config.values import why_no_path

_ENTRY: TypeAdapter[ResourceSettings] = TypeAdapter(ResourceEntry)


def load(path: File, environ: Mapping[str, str], sink_options: SinkOptionTypes) -> Settings:
    """Settings from the YAML file at ``path`` with the ``KUBEDELTA__…`` variables of ``environ`` laid over it.

    ``sink_options`` says which types of sinks there are and what may be set for each. Relative paths are taken from
    the file's folder, also those that a variable gives; ``~`` is the home folder; ``-`` stays as it is. Secret files
    are not opened here. Raises ConfigError with one problem for each mistake.
    """
    document = read(path)
    settings = judged(document, environ, settings_type(sink_options))
    if homeless := list(_unusable(settings, (), _why_no_home)):
        raise ConfigError([Problem(document.source(each.path), *each) for each in homeless])
    return Settings.model_construct(**_located(dict(settings), path.absolute().parent))


def judged(document: Document, environ: Mapping[str, str], known: type[Settings]) -> Settings:
    """As ``load``, for a document that is at hand and settings that are known; paths stay as they are written."""
    found = overlay(environ, document.data, known)
    written = merged(document.data, found.data)
    # A section of which every line is commented out is as if it were not there.
    data = {name: value for name, value in written.items() if value is not None or name not in known.model_fields}
    told = _overlaps(data)
    try:
        settings = _validated(known, data)
    except ValidationError as error:
        told = [*mistakes(error.errors(), data, known), *told]
    else:
        told = [*told, *_unusable(settings, (), why_no_path)]
    problems = [*document.problems, *found.problems]
    told.sort(key=lambda mistake: document.line(mistake.path))
    problems += [Problem(_source(each.path, document, found), *each) for each in told]
    if problems:
        raise ConfigError(problems)
    return settings


def _source(path: Path, document: Document, environment: Overlay) -> str:
    """Who set the value at ``path``; where it is missing, who set what should hold it."""
    above = path[:-1]
    alone = environment.variable_below(above) if above and above not in document.lines else None
    return environment.variable(path) or alone or document.source(path)


def _validated(known: type[Settings], data: dict[str, Any]) -> Settings:
    class Sourced(known):  # type: ignore[misc, valid-type]
        @classmethod
        def settings_customise_sources(cls, *_: Any, **__: Any) -> tuple[PydanticBaseSettingsSource, ...]:
            """What was read, and nothing behind the caller's back."""
            return (InitSettingsSource(cls, init_kwargs=data),)

    return Sourced()


def _overlaps(data: Mapping[str, Any]) -> list[Mistake]:
    """Of the entries that are right by themselves, those that may mean the same object."""
    entries: dict[int, ResourceSettings] = {}
    written = data.get("resources")
    for place, entry in enumerate(written if isinstance(written, list) else []):
        with suppress(ValidationError):
            entries[place] = _ENTRY.validate_python(entry)
    places = list(entries)
    return [
        Mistake(
            ("resources", places[there]),
            f"{entries[places[there]].resource} may mean the same objects as resources[{places[here]}] "
            f"({entries[places[here]].resource}); an object belongs to one entry: join the two, or give them different "
            "namespaces",
        )
        for here, there in overlaps(list(entries.values()))
    ]


def _unusable(value: Any, path: Path, why: Callable[[File], str]) -> Iterator[Mistake]:
    """Every path in ``value`` that ``why`` has a reason against."""
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
            for place, each in enumerate(value):
                yield from _unusable(each, (*path, place), why)
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
    """``value`` with every relative path in it taken from ``folder``."""
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
