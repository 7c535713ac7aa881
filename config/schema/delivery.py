"""Declares the options that a sink of any type has beside its own, ``select`` among them: which objects, and which of
their steps, it gets.

Only the syntax is checked here. bridge.views compiles the expressions; names have their meaning on a cluster.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, Field

from bridge.model.change import Op
from bridge.model.policies import BacklogBounds, OnError, OnRejected, StartPolicy, WhenFull
from config.schema.resources import LabelSelector, Namespaces, RedactEntry, ResourceName, named_alone
from config.values import Between, Count, Duration, Expression, Positive, Section, Size, each_once

# ── Selection ────────────────────────────────────────────────────────────────


class SelectSettings(Section):
    """Objects of a watched resource, and steps of these objects. All conditions of an entry must hold; a condition that
    is left out always does."""

    resource: ResourceName = Field(
        description="A watched resource, or a wildcard for several.",
        examples=["deployments.apps"],
    )
    namespaces: Namespaces = Field(
        default=(),
        json_schema_extra={"uniqueItems": True},
        description="Only these; empty for all. Objects without a namespace ignore it.",
        examples=[["shop", "payments"]],
    )
    label_selector: LabelSelector = Field(
        default="",
        description="Only objects with these labels.",
        examples=["tier=web"],
    )
    where: Expression | None = Field(
        default=None,
        description="Only objects for which this CEL expression is true (docs/sinks/select.md). One that stops "
        "matching comes as deleted, one that begins to match as added.",
        examples=["has(object.metadata.labels) && 'team' in object.metadata.labels"],
    )
    operations: Annotated[tuple[Op, ...], each_once("operation"), Field(min_length=1)] = Field(
        default=tuple(Op),
        json_schema_extra={"uniqueItems": True},
        description="Only these steps of the objects. Consumers that keep state need all.",
        examples=[["added", "deleted"]],
    )
    when: Expression | None = Field(
        default=None,
        description="Only steps for which this CEL expression is true. Not for consumers that keep state.",
        examples=["op != 'updated' || object.spec.replicas != oldObject.spec.replicas"],
    )
    on_error: OnError = Field(
        default=OnError.SELECT,
        description="For an expression that fails on an object, and for a label selector where only the object's "
        "identity is known. select: as if it were true. skip: as if it were false.",
    )


SelectEntry: TypeAlias = Annotated[
    SelectSettings, BeforeValidator(named_alone, json_schema_input_type=ResourceName | SelectSettings)
]
"""A name alone, or a mapping with conditions."""

Select: TypeAlias = Annotated[tuple[SelectEntry, ...], Field(min_length=1, max_length=100)]
"""The entries are alternatives: a sink gets an object that any of them contains."""


# ── Delivery ─────────────────────────────────────────────────────────────────


class MaxBacklogSettings(Section):
    """Bounds of a sink's backlog: the records in the outbox that it has not settled."""

    records: Positive | None = Field(
        default=None,
        description="Most records. With compact, the newest record of each object is kept, however many there are.",
        examples=[1_000_000],
    )
    # A bound below one batch would be reached by every batch.
    bytes: Annotated[Size, Between(1024**2)] | None = Field(
        default=Size(4 * 1024**3),
        description="Most bytes in the outbox, compressed: 4GiB hold about two million changes to pods. null for "
        "no bound. It must fit the disk.",
    )
    age: Annotated[Duration, Between(1)] | None = Field(
        default=None,
        description="Longest age of the oldest record.",
        examples=["12h"],
    )

    @property
    def bounds(self) -> BacklogBounds:
        return BacklogBounds(self.records, self.bytes, self.age)


class SnapshotSettings(Section):
    """Snapshots of a sink by schedule."""

    # A snapshot of a large cluster takes a minute.
    every: Annotated[Duration, Between(60)] = Field(
        description="Time between the beginnings of two snapshots, also over restarts; at least 1m. One that "
        "became due while no bridge ran begins as soon as it can.",
        examples=["24h"],
    )


class DeliverySettings(Section):
    """Options that a sink of any type has, beside its own options."""

    start: StartPolicy = Field(
        default=StartPolicy.SNAPSHOT,
        description="Where a sink with a new name begins. snapshot: with every known object as added, between two "
        "notices. now: with the next change. earliest: with the oldest record in the outbox (state.retain).",
    )
    snapshot: SnapshotSettings | None = Field(
        default=None,
        description="Snapshots by schedule: every known object once more (op: sync), between two notices, at no cost "
        "to the API server.",
        examples=[{"every": "24h"}],
    )
    max_backlog: MaxBacklogSettings = Field(
        default=MaxBacklogSettings(),
        description="Bounds of the sink's backlog, which costs disk but no memory; the bound that is reached first "
        "counts.",
    )
    when_full: WhenFull = Field(
        default=WhenFull.COMPACT,
        description="At the bound of max_backlog. compact: only the newest state of each object stays. block: the "
        "bridge stops reading from the API server, for every sink, until this one has caught up; steps that the API "
        "server forgets meanwhile are missing. drop: a Gap record takes the place of the backlog.",
    )
    on_rejected: OnRejected = Field(
        default=OnRejected.PARK,
        description="For the later records of an object whose record was rejected. park: they wait behind it as dead "
        "letters. pass: they are delivered.",
    )
    redact: tuple[RedactEntry, ...] = Field(
        default=(),
        description="Values that must not leave to this sink, as in redaction.rules, for every resource; also in its "
        "dead letters.",
        examples=[["metadata.annotations", {"paths": ["spec.template.spec.containers[*].env"], "mode": "mask"}]],
    )
    select: Select | None = Field(
        default=None,
        description="The objects and steps that this sink gets: alternatives. Without it, the sink gets everything. "
        "After a change, it gets added and deleted for the objects that came and left.",
        examples=[["deployments.apps", {"resource": "events", "where": "object.type == 'Warning'"}]],
    )
    window: Count = Field(
        default=5000,
        ge=1,
        le=1_000_000,
        description="Records in memory for this sink. A longer backlog is read from the outbox.",
    )
    resync_seconds: Duration = Field(
        default=Duration(0),
        description="Time between two resyncs, which deliver every known object to this sink (op: sync); 0 for "
        "never. For consumers that cannot keep state.",
    )
