"""Policies of sinks, of redaction and of elections, as the configuration names them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from bridge.model.primitives.field_path import FieldPath


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


class RedactionMode(StrEnum):
    """The fate of a redacted value."""

    HMAC = "hmac"
    """A keyed digest replaces it: equal values of an object have equal digests, so a reader sees a change."""
    REMOVE = "remove"
    """It is left out, with its name; an item of a list becomes null."""
    MASK = "mask"
    """The same text replaces every value."""


class RedactionPreset(StrEnum):
    """A set of places where objects other than Secrets are known to hold credentials (``transform.places``)."""

    ENV = "env"
    """In ``env``, by the variable's name or the value's form."""
    ARGUMENTS = "arguments"
    """In ``args`` and ``command``, by the same names and forms."""
    ANNOTATIONS = "annotations"
    """Those whose last word is token. Copies of the whole object are left out."""
    BOOTSTRAP_TOKENS = "bootstrap_tokens"
    """In ConfigMaps and custom resources, members whose name ends in token and whose value is like one."""
    HELM_RELEASES = "helm_releases"
    """The data of Helm's releases in ConfigMaps."""


class RedactionRule(msgspec.Struct, frozen=True):
    """The values at these paths, and all values below them, are redacted."""

    paths: tuple[FieldPath, ...]
    mode: RedactionMode = RedactionMode.HMAC


# ── Elections ────────────────────────────────────────────────────────────────

ANSWER_PART = 0.5
"""Of the renew deadline: a request about the Lease over a dead connection leaves time for another."""


class LeaseTiming(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of an election, in seconds."""

    lease_duration: float = 15.0
    """Others take the Lease after so long without a change of it."""
    renew_deadline: float = 10.0
    """The holder stops its work so long after the start of its last successful renewal."""
    retry_period: float = 2.0
    """Between two renewals, and between two attempts."""

    @property
    def return_time(self) -> float:
        """In which a holder renews the Lease once the API server answers again: the end of a request that had no
        answer, and one more attempt."""
        return ANSWER_PART * self.renew_deadline + 1.5 * self.retry_period
