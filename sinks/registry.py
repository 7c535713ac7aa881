"""Which types of sinks there are: our own, then what other packages offer as entry points in ``kubedelta.sinks``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from sinks import file, kafka, nats, webhook
from sinks.base import Sink, SinkOptions, SinkType

GROUP = "kubedelta.sinks"
"""An entry point of this group names the type and leads to a SinkType: ``redis = "my_package:REDIS"``."""

BUILT_IN = (kafka.TYPE, nats.TYPE, webhook.TYPE, file.TYPE)


class UnknownSinkType(LookupError):
    """No sink of this type can be used. The message says which ones can, or what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Found:
    types: dict[str, SinkType] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    """Entry point → why it is left out. The others can be used nevertheless."""


def types() -> dict[str, SinkType]:
    """The types that can be used, by name; the built-in ones first."""
    return _installed().types


def unusable() -> dict[str, str]:
    """Entry points that are there and cannot be used, and why not."""
    return _installed().unusable


def create(name: str, type: str, options: SinkOptions, cluster: str) -> Sink:
    """A sink that is not open. ``name`` is the operator's word for it, ``type`` says which kind it is, ``options`` are
    of that kind. Raises UnknownSinkType."""
    kind = types().get(type)
    if kind is None:
        raise UnknownSinkType(_unknown(type))
    return kind.load()(name, options, cluster=cluster)


def find(built_in: Iterable[SinkType], offers: Iterable[EntryPoint]) -> Found:
    """Join both. A name that is taken, a package that cannot be imported, or something else than a SinkType makes an
    entry point unusable; an earlier one keeps its name."""
    found = Found({kind.name: kind for kind in built_in})
    for offer in offers:
        origin = f"{offer.name} = {offer.value}" + (f" of {offer.dist.name}" if offer.dist else "")
        try:
            kind = offer.load()
        except Exception as error:  # Whatever a package does when it is imported.
            found.unusable[origin] = f"it cannot be imported: {error!r}"
            continue
        if reason := _what_is_wrong(offer.name, kind, found.types):
            found.unusable[origin] = reason
        else:
            found.types[kind.name] = kind
    return found


def _what_is_wrong(name: str, kind: object, taken: dict[str, SinkType]) -> str:
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
def _installed() -> Found:
    return find(BUILT_IN, entry_points(group=GROUP))
