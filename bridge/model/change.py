"""A change of an object, as an informer finds it by comparison with its store."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Self

import msgspec

from bridge.model.object import ApiObject
from bridge.model.resource import Resource, Scope


class Op(StrEnum):
    """What a change does to its object."""

    # This is the only list of them: schemas, formats, metrics and displays are made of it. What an op means stands in
    # attributes of the members, because every condition on the hot path asks for it: a property, or a comparison with
    # two members, takes seven times as long.

    ADDED = "added", "c", "+", True, False
    UPDATED = "updated", "u", "~", True, False
    DELETED = "deleted", "d", "-", False, False
    SYNC = "sync", "r", "=", False, True
    """The object is unchanged, and delivered again by a resync."""

    code: str
    """Debezium's, in envelopes: created, updated, deleted, read."""
    sign: str
    """In lines for people."""
    has_state: bool
    """The change brings a new state of its object: the ledger points to its record from then on."""
    is_copy: bool
    """The change repeats a state that was exported before: it moves no version, and no record becomes obsolete by
    it."""

    def __new__(
        cls, value: str, code: str = "", sign: str = "", has_state: bool = False, is_copy: bool = False
    ) -> Self:
        op = str.__new__(cls, value)
        op._value_ = value
        op.code = code
        op.sign = sign
        op.has_state = has_state
        op.is_copy = is_copy
        return op


OP_OF_NAME = {op.value: op for op in Op}


class Evidence(StrEnum):
    """How the bridge learned of a change. An attribute of every event."""

    WATCHED = "watched"
    """A watch event announced it."""
    LISTED = "listed"
    """The first list contained it."""
    RELISTED = "relisted"
    """A later list differed from the store; steps in between may be missing."""
    RECOVERED = "recovered"
    """After a later list differed from the store, the API server's history had this change. No step of the object is
    missing between the change before and this one."""
    UNWATCHED = "unwatched"
    """Of a delete that nobody has seen: the bridge does not watch the object any more, because it left the
    configuration, or because the API server does not serve its resource. The object may exist."""
    UNSELECTED = "unselected"
    """A sink's selection does not contain the object any more. The object exists, and may be added again with the same
    uid."""


# gc=False, here and for other values of which there are many: they are in no cycle, and the garbage collector would
# visit each of them at every full collection.
class ObjectVersion(msgspec.Struct, frozen=True, gc=False):
    """The last known version of an object, between two changes."""

    uid: str
    resource_version: str
    state: bytes | int
    """The body, in the private form of the store that made this value; or, offloaded, the sequence number of the
    outbox record with the body. The same store can return the body in both cases."""
    members: int = 0
    """The sinks whose selection contains it (``Selected.members``); 0 until its record is durable."""
    digest: bytes = b""
    """Of the exported state without the ignored paths; empty where no changes are ignored."""
    exported: str = ""
    """The resourceVersion of the exported state (``state``), if ignored changes followed; otherwise empty."""

    @property
    def exported_version(self) -> str:
        return self.exported or self.resource_version


class Change(msgspec.Struct, frozen=True, gc=False):
    """A change of an object. ``object`` is the state after the change; for a delete, the last known state."""

    op: Op
    evidence: Evidence
    object: ApiObject
    before: ObjectVersion | None = None
    """The version that was known before; None for a new object."""
    targets: tuple[str, ...] | None = None
    """Names of the target listeners; None for all. Set for a resync, and for a listener that was added late."""
    digest: bytes = b""
    """``ObjectVersion.digest`` of the state after the change."""


class IgnoredChange(msgspec.Struct, frozen=True):
    """An ignored change of an informer. By the newest, the server's history is known where no state is exported."""

    key: str
    uid: str
    resource_version: str
    paths: str
    """The name of the ignored paths."""


class ChangeBatch(msgspec.Struct, frozen=True):
    """Changes of an informer in their order, with the watch's position behind them."""

    resource: Resource
    scope: Scope
    changes: Sequence[Change]
    position: str | None
    """The resourceVersion from which a watch may resume once these changes are stored: with them, the store has every
    change up to this version, and no later change. None without such a version (during a list, or after a watch event
    that could not be read). An earlier position stays valid until a batch without position has a change other than a
    resync, or begins a new epoch."""
    epoch: int = 1
    """Grows where the API server's versions ran backwards, so that a repeated uid and version get a new source."""
    ignoring: str = ""
    """The name of the paths whose changes are ignored, so that states have digests; empty without any."""
    ignored: IgnoredChange | None = None
    """The newest change of the batch that is ignored, and so is none of ``changes``."""
