"""The types of sinks: the built-in types, then those of other packages (entry points in ``kubedelta.sinks``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sinks import file, kafka, nats, webhook
from sinks.base import ReadPurpose, RecordReader, Sink, SinkOptions, SinkType
from sinks.file.options import FileOptions
from sinks.reader import CheckedSeals

if TYPE_CHECKING:
    from sinks.file.reader import FileReader

GROUP = "kubedelta.sinks"
"""An entry point of this group names the type and leads to a SinkType: ``redis = "my_package:REDIS"``."""

BUILT_IN = (kafka.TYPE, nats.TYPE, webhook.TYPE, file.TYPE)


class UnknownSinkType(LookupError):
    """No sink of this type can be used. The message names the usable types, or the error of this type's entry point."""


@dataclass(frozen=True, slots=True)
class InstalledTypes:
    """The result of ``find``."""

    types: dict[str, SinkType] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    """Entry point → error. The other types can be used."""


def types() -> dict[str, SinkType]:
    """The usable types by name, the built-in types first."""
    return _installed().types


def unusable() -> dict[str, str]:
    """Entry point → error, of the entry points that cannot be used."""
    return _installed().unusable


def create(name: str, type: str, options: SinkOptions, cluster: str) -> Sink:
    """A sink that is not open. ``name``: the sink's name in the configuration. ``options``: of the class that the type
    names. The first one of a type imports its code: up to a second where the processor is busy. Raises
    UnknownSinkType."""
    kind = types().get(type)
    if kind is None:
        raise UnknownSinkType(_unknown(type))
    return kind.load()(name, options, cluster=cluster)


def reader(name: str, type: str, options: Any, *, cluster: str, purpose: ReadPurpose) -> RecordReader | None:
    """Of the destination of a sink, see ``create``; None if no sink of the type can be read. Raises CannotRead."""
    load = types()[type].reader
    return None if load is None else load()(name, options, cluster=cluster, purpose=purpose)


def reader_of_file(path: str, purpose: ReadPurpose) -> FileReader:
    """Of a file of any sink, without its configuration. Raises CannotRead."""
    from sinks.file.reader import FileReader

    return FileReader(path, FileOptions.model_validate({"path": path}), cluster="", purpose=purpose)


def check_seals(folder: Path, public_keys: Sequence[str]) -> Sequence[CheckedSeals]:
    """See ``sinks.file.seals.check_seals``."""
    from sinks.file.seals import check_seals as check

    return check(folder, public_keys)


def find(built_in: Iterable[SinkType], offers: Iterable[EntryPoint]) -> InstalledTypes:
    """Joins both. An entry point is unusable if its name is taken, its package cannot be imported, or its object is no
    SinkType. The first type of a name is used."""
    found = InstalledTypes({kind.name: kind for kind in built_in})
    for offer in offers:
        origin = f"{offer.name} = {offer.value}" + (f" of {offer.dist.name}" if offer.dist else "")
        try:
            kind = offer.load()
        except Exception as error:  # The import of a package may raise any exception.
            found.unusable[origin] = f"it cannot be imported: {error!r}"
            continue
        if reason := _error_of(offer.name, kind, found.types):
            found.unusable[origin] = reason
        else:
            found.types[kind.name] = kind
    return found


def _error_of(name: str, kind: object, taken: dict[str, SinkType]) -> str:
    if not isinstance(kind, SinkType):
        return f"it is no SinkType but {type(kind).__name__}"
    if kind.name != name:
        return f"the SinkType is called {kind.name}: both must have the same name"
    if name in taken:
        return f"there is a sink type {name} already"
    return ""


def _unknown(wanted: str) -> str:
    for origin, reason in unusable().items():
        if origin.partition(" ")[0] == wanted:
            return f"the sink type {wanted} ({origin}) cannot be used: {reason}"
    nearest = get_close_matches(wanted, types(), n=1)
    hint = f" Did you mean {nearest[0]}?" if nearest else ""
    return f"there is no sink type {wanted}.{hint} Known are {', '.join(types())}"


@cache
def _installed() -> InstalledTypes:
    return find(BUILT_IN, entry_points(group=GROUP))
