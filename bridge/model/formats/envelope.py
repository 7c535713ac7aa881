"""Records as envelopes of change data capture: the states before and after the change, in Debezium's words.

Envelopes are about objects only: a notice with an ``op`` of its own, or with Debezium's ``m``, stops Flink's
debezium-json. So a notice has its own form in its own place, and every later envelope names the gap (``source.gap``).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op
from bridge.model.formats.content import MADE, Content, Include
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.formats.object_paths import CORE
from bridge.model.record import Delta

NULL = msgspec.Raw(b"null")
_NO_CONTENT = Content()
_encode = msgspec.json.Encoder().encode


class EnvelopeSource(msgspec.Struct, frozen=True):
    """Where the change comes from. The members up to ``table`` are those that every connector of Debezium has, and mean
    what they mean there; the others are of the object and of the change."""

    version: Annotated[str, Meta(description="The version of kubedelta.")]
    connector: Literal["kubedelta"]
    name: Annotated[str, Meta(description="The configured name of the cluster.")]
    ts_ms: Annotated[int, Meta(description="When the bridge saw the change: milliseconds since 1970.")]
    snapshot: Annotated[
        Literal["true", "last", "false"], Meta(description="Whether the record is one of a snapshot, or its last.")
    ]
    db: Annotated[str, Meta(description="The configured name of the cluster.")]
    sequence: Annotated[str, Meta(pattern="^[0-9]+$", description="The number of the record in the log.")]
    schema: Annotated[str, Meta(description="The API group; core for the core group.")]
    table: Annotated[str, Meta(description="The plural of the resource, such as deployments.")]
    apiversion: Annotated[str, Meta(description="Group and version of the state, such as apps/v1.")]
    kind: str
    namespace: Annotated[str, Meta(description="Empty for an object without a namespace.")]
    objectname: Annotated[str, Meta(description="The name of the object.")]
    uid: str
    resourceversion: str
    id: Annotated[str, Meta(description="uid, resourceVersion and op. Unique within cluster and epoch.")]
    evidence: Annotated[Evidence, Meta(description="How the bridge knows of the change.")]
    epoch: Annotated[int, Meta(ge=1, description="The period in which an id is unique.")]
    gap: Annotated[str | msgspec.UnsetType, Meta(description="The id of the newest gap in the stream.")] = msgspec.UNSET
    term: Annotated[
        Annotated[int, Meta(ge=1)] | msgspec.UnsetType, Meta(description="With an election, the term of the leader.")
    ] = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True):
    """A change of an object in the words of Debezium."""

    op: Annotated[
        str,
        Meta(
            description="Created, updated, deleted, or read without a change.",
            extra_json_schema={"enum": sorted(op.code for op in Op)},
        ),
    ]
    before: msgspec.Raw
    after: msgspec.Raw
    source: EnvelopeSource
    ts_ms: Annotated[int, Meta(description="When the bridge saw the change: milliseconds since 1970.")]
    patch: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    json_patch: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    changed: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    managers: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Envelopes:
    """``{"op", "before", "after", "source", "ts_ms"}`` for the changes of a cluster. Gaps and edges of snapshots are
    never envelopes, since consumers of change data capture fail on an unknown operation.

    ``op`` is ``c`` for a new object, ``u`` for a change, ``d`` for a delete, ``r`` for an object that is read without
    a change (a snapshot, a resync). The first list of a new state directory is no snapshot: its objects are new to the
    stream, ``c`` with the evidence ``listed``. ``after`` is the object, null for a delete; ``before`` of a delete
    is its last known state. ``source.snapshot`` is ``true`` for the records of a snapshot, ``last`` for its last
    record, and ``false`` otherwise. After a gap, ``source.gap`` has the gap's id; with an election, ``source.term`` has
    the term of the leader. ``ts_ms`` is the time at which the bridge saw the change, in milliseconds since 1970.

    ``include``: further members. ``before`` of an update is null where it is unknown, and where it is not included. The
    differences (a merge patch, a JSON patch, the changed paths) are null without a state before, and for a delete.
    """

    name = "envelope"

    def __init__(self, cluster: str, *, include: Collection[Include] = ()) -> None:
        self._cluster = cluster
        self._version = version("kubedelta")
        self._include = frozenset(include)
        self._has_content = not MADE.isdisjoint(self._include)
        self.gap = ""
        """Id of the newest gap in the stream; empty before the first."""

    def __call__(self, delta: Delta) -> bytes:
        """JSON. Raises ValueError if a difference is included and a state cannot be decoded."""
        return _encode(self._of(delta))

    def schema(self, definitions: Definitions) -> JsonSchema:
        before = "The state before the change; null where unknown. Flink's debezium-json needs before in include."
        return definitions.struct(
            Envelope,
            before=definitions.state_or_null(before),
            after=definitions.state_or_null("The state after the change; null for a delete."),
            **definitions.differences(self._include),
        )

    def _of(self, delta: Delta) -> Envelope:
        body, earlier = msgspec.Raw(delta.body), delta.before
        content = delta.made if self._has_content else _NO_CONTENT
        is_delete = delta.op is Op.DELETED
        read = delta.op is Op.ADDED and delta.snapshot is not None
        milliseconds = _milliseconds(delta.time)
        if is_delete:
            # The log has the last known state as the body of a delete; Debezium sends that state as ``before``.
            before = body
        else:
            before = NULL if earlier is None or Include.BEFORE not in self._include else msgspec.Raw(earlier)
        return Envelope(
            op=(Op.SYNC if read else delta.op).code,
            before=before,
            after=NULL if is_delete else body,
            source=self._source(delta, milliseconds),
            ts_ms=milliseconds,
            patch=self._if_included(Include.PATCH, content.patch),
            json_patch=self._if_included(Include.JSON_PATCH, content.json_patch),
            changed=self._if_included(Include.CHANGED, content.changed),
            managers=self._if_included(Include.MANAGERS, content.managers),
        )

    def _if_included(self, what: Include, found: bytes | None) -> msgspec.Raw | msgspec.UnsetType:
        if what not in self._include:
            return msgspec.UNSET
        return NULL if found is None else msgspec.Raw(found)

    def _source(self, delta: Delta, milliseconds: int) -> EnvelopeSource:
        namespace, _, name = delta.key.rpartition("/")
        resource = delta.resource
        return EnvelopeSource(
            version=self._version,
            connector="kubedelta",
            name=self._cluster,
            ts_ms=milliseconds,
            snapshot="false" if delta.snapshot is None else "last" if delta.last_of_snapshot else "true",
            db=self._cluster,
            sequence=str(delta.sequence),
            schema=resource.group or CORE,
            table=resource.plural,
            apiversion=f"{resource.group}/{resource.version}" if resource.group else resource.version,
            kind=resource.kind,
            namespace=namespace,
            objectname=name,
            uid=delta.uid,
            resourceversion=delta.resource_version,
            id=delta.id,
            evidence=delta.evidence,
            epoch=delta.epoch,
            gap=self.gap or msgspec.UNSET,
            term=delta.term or msgspec.UNSET,
        )


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)
