"""Makes figures of a running bridge's answers, for ``kubedelta top``: the rates between two answers, and tables of text
in the chosen order.

It has no terminal, clock or socket: ``top`` asks, and shows the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bridge.cli.terminal import age, plain, size
from bridge.model.diagnosis import troubles_of
from bridge.model.status import BridgeStatus, InformerState, InformerStatus, SinkState, SinkStatus

# ── Rates ────────────────────────────────────────────────────────────────────

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
    status: BridgeStatus
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


def _by_resource(status: BridgeStatus) -> dict[str, list[InformerStatus]]:
    found: dict[str, list[InformerStatus]] = {}
    for informer in status.informers:
        found.setdefault(informer.resource, []).append(informer)
    return found


# ── Tables ───────────────────────────────────────────────────────────────────

NONE = "-"


class Order(StrEnum):
    """The order of rows: by name, or the largest first."""

    NAME = "name"
    RATE = "rate"
    LAG = "lag"
    """What waits: the queued deltas of a resource, the backlog of a sink."""
    ERRORS = "errors"

    def next(self) -> Order:
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    drop: int = 0
    """Columns with larger numbers are left out first where the terminal is narrow; 0 stays."""
    right: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    """Escaped, in a single line."""
    style: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


RESOURCES = (
    Column("RESOURCE"),
    Column("STATE"),
    Column("RATE/S", right=True),
    Column("OBJECTS", 3, right=True),
    Column("QUEUED", 4, right=True),
    Column("CONTACT", 5, right=True),
    Column("ERRORS", 2, right=True),
    Column("", 1),
)
# LAG is the age of the oldest record in the backlog.
SINKS = (
    Column("SINK"),
    Column("STATE"),
    Column("RATE/S", right=True),
    Column("BACKLOG", right=True),
    Column("LAG", 2, right=True),
    Column("BYTES", 5, right=True),
    Column("DEAD", 3, right=True),
    Column("RETRIES", 4, right=True),
    Column("TYPE", 6),
    Column("", 1),
)
_WELL = {
    InformerState.LIVE: "green",
    InformerState.REFUSED: "red",
    InformerState.UNKNOWN: "red",
    SinkState.IDLE: "green",
    SinkState.DELIVERING: "green",
    SinkState.PAUSED: "yellow",
    SinkState.GONE: "red",
    SinkState.FENCED: "red",
}
_MOVING = (SinkState.OPENING, SinkState.IDLE, SinkState.DELIVERING)
_FAILING = "failing"
"""In place of these states while an attempt decides whether a failure is over."""


def resource_table(figures: Figures, order: Order) -> Table:
    rows = _ordered(
        figures.resources,
        order,
        lambda each: each.name,
        {
            Order.RATE: lambda each: each.rate or 0.0,
            Order.LAG: lambda each: (each.queued, each.contact or 0.0),
            Order.ERRORS: lambda each: (each.state is not InformerState.LIVE, each.errors or 0),
        },
    )
    return Table(RESOURCES, [_resource(each) for each in rows])


def _resource(each: ResourceFigures) -> list[Cell]:
    return [
        Cell(plain(each.name), "cyan"),
        Cell(each.state, _WELL.get(each.state, "yellow")),
        Cell(_rate(each.rate)),
        Cell(str(each.objects)),
        Cell(str(each.queued), "yellow" if each.queued else ""),
        Cell(NONE if each.contact is None else age(each.contact)),
        Cell(NONE if each.errors is None else str(each.errors), "yellow" if each.errors else ""),
        Cell(plain(each.reason), "dim"),
    ]


def sink_table(figures: Figures, order: Order) -> Table:
    rows = _ordered(
        figures.sinks,
        order,
        lambda each: each.status.name,
        {
            Order.RATE: lambda each: each.rate or 0.0,
            Order.LAG: lambda each: (each.status.backlog_records, each.status.backlog_seconds),
            Order.ERRORS: lambda each: (not each.status.well, each.status.dead_letters, each.retries or 0),
        },
    )
    return Table(SINKS, [_sink(each) for each in rows])


def _sink(each: SinkFigures) -> list[Cell]:
    status = each.status
    return [
        Cell(plain(status.name), "cyan"),
        Cell(_FAILING if status.fails and status.state in _MOVING else status.state, _style(status)),
        Cell(_rate(each.rate)),
        Cell(str(status.backlog_records), "yellow" if status.backlog_records else ""),
        Cell(age(status.backlog_seconds) if status.backlog_records else NONE),
        Cell(size(status.backlog_bytes)),
        Cell(str(status.dead_letters), "red" if status.dead_letters else ""),
        Cell(NONE if each.retries is None else str(each.retries), "yellow" if each.retries else ""),
        Cell(plain(status.type)),
        Cell(_notes(each), "dim"),
    ]


def _style(status: SinkStatus) -> str:
    return "red" if status.fails else _WELL.get(status.state, "yellow")


def _notes(each: SinkFigures) -> str:
    status = each.status
    notes = [f"{status.backfill}: {status.backfill_left} left"] if status.backfill else []
    if status.retry_in is not None:
        notes.append(f"next attempt in {age(status.retry_in)}")
    if status.last_error:
        notes.append(plain(status.last_error))
    return "; ".join(notes)


def _rate(rate: float | None) -> str:
    return NONE if rate is None else f"{rate:.1f}"


def _ordered(rows: Sequence[Any], order: Order, name: Callable[[Any], str], keys: dict[Order, Any]) -> list[Any]:
    by_name = sorted(rows, key=name)
    return by_name if order is Order.NAME else sorted(by_name, key=keys[order], reverse=True)


def summary(status: BridgeStatus, figures: Figures) -> list[Cell]:
    """The bridge in a few words, the most important first."""
    committed = [each.rate for each in figures.resources if each.rate is not None]
    cells = [
        Cell("ready", "green") if status.ready else Cell("not ready", "bold red"),
        Cell(f"{sum(committed):.1f} records/s" if committed else "no rates yet"),
        Cell(f"outbox {status.outbox_records} records, {size(status.outbox_bytes)}"),
        Cell(f"{status.ledger_objects} objects"),
    ]
    if found := troubles_of(status):
        more = f" (and {len(found) - 1} more: kubedelta status)" if len(found) > 1 else ""
        cells.insert(1, Cell(plain(found[0].line) + more, "bold red"))
    if status.disk_free_bytes is not None:
        cells.append(Cell(f"disk {size(status.disk_free_bytes)} free"))
    return cells
