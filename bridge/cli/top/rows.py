"""Figures as rows of text, in the chosen order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bridge.cli.terminal.text import age, plain, size
from bridge.cli.top.figures import Figures, ResourceFigures, SinkFigures
from bridge.model.diagnosis import troubles_of
from bridge.model.status import InformerState, SinkState, SinkStatus, StatusSnapshot

NONE = "-"


class Order(StrEnum):
    """The order of rows: by name, or the largest first."""

    NAME = "name"
    RATE = "rate"
    LAG = "lag"
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


def summary(status: StatusSnapshot, figures: Figures) -> list[Cell]:
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


def _ordered(rows: Sequence[Any], order: Order, name: Callable[[Any], str], keys: dict[Order, Any]) -> list[Any]:
    by_name = sorted(rows, key=name)
    return by_name if order is Order.NAME else sorted(by_name, key=keys[order], reverse=True)


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
