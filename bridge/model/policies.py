"""Policies of a sink, as the configuration names them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StartPolicy(StrEnum):
    """Where a sink begins that has no cursor yet."""

    SNAPSHOT = "snapshot"
    """Every known object first, then the changes from now on."""
    NOW = "now"
    """Changes from now on."""
    EARLIEST = "earliest"
    """Every record that the log still has, then the changes from now on."""


class WhenFull(StrEnum):
    """The reaction to a backlog that reaches its bound."""

    BLOCK = "block"
    """The intake stops, for every sink, until this sink has caught up."""
    COMPACT = "compact"
    """The backlog is reduced to the newest record of each object."""
    DROP = "drop"
    """The oldest records are dropped, and a Gap record names them."""


@dataclass(frozen=True, slots=True)
class BacklogBounds:
    """The bounds of a backlog (``max_backlog``); None for no bound."""

    records: int | None = None
    bytes: int | None = None
    age: float | None = None
    """Seconds."""


class OnRejected(StrEnum):
    """The fate of later records of an object, after the destination rejected a record of it."""

    PARK = "park"
    """They wait behind it as dead letters, untried, so that their order is kept when it is delivered after all."""
    PASS = "pass"  # noqa: S105 (no password)
    """They are delivered."""


class OnError(StrEnum):
    """The meaning of an expression that fails on an object, such as by a missing member."""

    SELECT = "select"
    """As if it were true: no object is lost by a mistake."""
    SKIP = "skip"
    """As if it were false."""
