"""The meaning of a sink's ``select`` on a cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from bridge.kube import Catalogue
from bridge.outbox import EVERYTHING
from bridge.plan.plan import SinkPlan
from bridge.resources.resolve import Resolution
from bridge.resources.selected_resources import resolve_entries, unwatched_entries
from bridge.selection import encode_entries

_decode_names = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True)
class SelectMeaning:
    entries: str
    names: str
    """See StoredSelection, as ``entries``."""
    mistakes: list[str] = field(default_factory=list)
    """Paths and reasons of entries that can mean no watched resource."""
    unserved: dict[str, str] = field(default_factory=dict)
    """Paths of entries that mean no resource at this moment → the resource."""


def meaning_of(sink: SinkPlan, names: str, catalogue: Catalogue, resolution: Resolution) -> SelectMeaning:
    """``names``: the meanings that hold, as StoredSelection has them."""
    if sink.select is None:
        return SelectMeaning(EVERYTHING, "{}")
    known = _decode_names(names)
    resolved, meanings = resolve_entries(sink.select, resolution, catalogue, known)
    found = SelectMeaning(encode_entries(resolved), msgspec.json.encode(meanings, order="sorted").decode())
    for option, problem in unwatched_entries(resolved, f"sinks.{sink.name}.select", resolution, known.values()):
        if problem.is_mistake:
            found.mistakes.append(f"{option}: {problem}")
        else:
            found.unserved[option] = problem.resource
    return found
