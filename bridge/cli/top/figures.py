"""Answers of a running bridge, and the rates between two of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bridge.model.status import InformerState, InformerStatus, SinkStatus, StatusSnapshot

_COMMITTED = "kubedelta_records_committed_total"
_ERRORS = ("kubedelta_reflector_failures_total", "kubedelta_reflector_refusals_total")
_RETRIES = "kubedelta_sink_retries_total"
_WORST = (
    InformerState.REFUSED,
    InformerState.UNKNOWN,
    InformerState.LISTING,
    InformerState.RECONNECTING,
    InformerState.LIVE,
)


class Counts(msgspec.Struct, frozen=True):
    """Counters since the start of the bridge, by resource or by sink."""

    committed: Mapping[str, float] = {}
    errors: Mapping[str, float] = {}
    retries: Mapping[str, float] = {}

    @classmethod
    def parsed(cls, exposition: str) -> Counts:
        """Raises ValueError for a text that is no exposition."""
        committed: dict[str, float] = {}
        errors: dict[str, float] = {}
        retries: dict[str, float] = {}
        into = {_COMMITTED: (committed, "resource"), _RETRIES: (retries, "sink")}
        into |= dict.fromkeys(_ERRORS, (errors, "resource"))
        # Only these lines: the parser takes seconds for ten thousand series.
        lines = [line for line in exposition.splitlines() if line.startswith(tuple(into))]
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                found, label = into[sample.name]
                owner = sample.labels.get(label, "")
                found[owner] = found.get(owner, 0.0) + sample.value
        return cls(committed, errors, retries)


@dataclass(frozen=True, slots=True)
class Answer:
    """The bridge at a moment."""

    at: float
    """Seconds of a clock that never runs backwards."""
    status: StatusSnapshot
    counts: Counts | None
    """None if /metrics does not answer."""


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    """A resource, in all scopes: as far as its worst scope."""

    name: str
    state: InformerState
    objects: int
    queued: int
    rate: float | None
    """Committed records per second; None before two answers, and behind a restart of the bridge."""
    contact: float | None
    """Seconds since the API server last sent a byte."""
    errors: int | None
    """Failed and refused requests since the start."""
    reason: str


@dataclass(frozen=True, slots=True)
class SinkFigures:
    status: SinkStatus
    rate: float | None
    """Delivered records per second."""
    retries: int | None
    """Failed deliveries since the start."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The bridge, and what moved since the answer before."""

    answer: Answer
    resources: tuple[ResourceFigures, ...]
    sinks: tuple[SinkFigures, ...]


def figures_of(answer: Answer, before: Answer | None) -> Figures:
    """``before``: an earlier answer, of the same bridge or of the one before it."""
    seconds = 0.0 if before is None else answer.at - before.at
    earlier = Counts() if before is None or before.counts is None else before.counts

    def rate(now: float | None, then: float | None) -> float | None:
        return None if now is None or then is None or now < then or seconds <= 0 else (now - then) / seconds

    counts = answer.counts
    resources = []
    for name, scopes in _by_resource(answer.status).items():
        worst = min(scopes, key=lambda each: _WORST.index(each.state))
        contacts = [each.last_contact for each in scopes if each.last_contact is not None]
        resources.append(
            ResourceFigures(
                name,
                worst.state,
                sum(each.objects for each in scopes),
                sum(each.queued for each in scopes),
                None if counts is None else rate(counts.committed.get(name), earlier.committed.get(name)),
                max(contacts, default=None),
                None if counts is None else int(counts.errors.get(name, 0)),
                worst.reason,
            )
        )
    delivered = {} if before is None else {each.name: each.delivered for each in before.status.sinks}
    sinks = tuple(
        SinkFigures(
            each,
            rate(each.delivered, delivered.get(each.name)),
            None if counts is None else int(counts.retries.get(each.name, 0)),
        )
        for each in answer.status.sinks
    )
    return Figures(answer, tuple(resources), sinks)


def _by_resource(status: StatusSnapshot) -> dict[str, list[InformerStatus]]:
    found: dict[str, list[InformerStatus]] = {}
    for informer in status.informers:
        found.setdefault(informer.resource, []).append(informer)
    return found
