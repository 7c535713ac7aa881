"""Records as envelopes of change data capture: the states before and after the change, in Debezium's words."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.record import Delta

NULL = msgspec.Raw(b"null")
_decode = msgspec.json.decode
_encode = msgspec.json.Encoder().encode


class EnvelopeSource(msgspec.Struct, frozen=True):
    """The identity of the object and of the change."""

    cluster: Annotated[str, Meta(description="The configured name of the cluster.")]
    group: Annotated[str, Meta(description="The API group; empty for the core group.")]
    version: str
    resource: Annotated[str, Meta(description="The plural, such as deployments.")]
    kind: str
    namespace: Annotated[str, Meta(description="Empty for an object without a namespace.")]
    name: str
    id: Annotated[str, Meta(description="uid, resourceVersion and op. Unique within cluster and epoch.")]
    uid: str
    resourceversion: str
    sequence: Annotated[int, Meta(description="The number of the record in the log.")]
    evidence: Annotated[Evidence, Meta(description="How the bridge knows of the change.")]
    epoch: Annotated[int, Meta(ge=1, description="The period in which an id is unique.")]
    snapshot: Annotated[
        Literal["true", "last", "false"], Meta(description="Whether the record is one of a snapshot, or its last.")
    ]
    gap: Annotated[str | msgspec.UnsetType, Meta(description="The id of the newest gap in the stream.")] = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True):
    """A change of an object in the words of Debezium."""

    op: Annotated[Literal["c", "u", "d", "r"], Meta(description="Created, updated, deleted, or read without a change.")]
    before: msgspec.Raw
    after: msgspec.Raw
    source: EnvelopeSource
    ts_ms: Annotated[int, Meta(description="When the bridge saw the change: milliseconds since 1970.")]
    patch: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OPS: dict[Op, Literal["c", "u", "d", "r"]] = {Op.ADDED: "c", Op.UPDATED: "u", Op.DELETED: "d", Op.SYNC: "r"}


class Envelopes:
    """``{"op", "before", "after", "source", "ts_ms"}`` for the changes of a cluster. Gaps and edges of snapshots are
    never envelopes, since consumers of change data capture fail on an unknown operation.

    ``op`` is ``c`` for a new object, ``u`` for a change, ``d`` for a delete, ``r`` for an object that is read without
    a change (a snapshot, the first list, a resync). ``after`` is the object, null for a delete; ``before`` of a delete
    is its last known state. ``source.snapshot`` is ``true`` for the records of a snapshot, ``last`` for its last
    record, and ``false`` otherwise. After a gap, ``source.gap`` has the gap's id. ``ts_ms`` is the time at which the
    bridge saw the change, in milliseconds since 1970.

    ``before``: also export the state before the change (null where it is unknown). ``patch``: add a merge patch (RFC
    7386) from before to after, null without a state before. A patch decodes both states: some 50 µs for an object of
    8 KB.
    """

    name = "envelope"

    def __init__(self, cluster: str, *, before: bool = False, patch: bool = False) -> None:
        self._cluster = cluster
        self._before = before
        self._patch = patch
        self.gap = ""
        """Id of the newest gap in the stream; empty before the first."""

    def __call__(self, delta: Delta) -> bytes:
        """JSON. Raises ValueError if a patch is wanted and a state cannot be decoded."""
        return _encode(self._of(delta))

    def schema(self, definitions: Definitions) -> JsonSchema:
        before = "The state before the change; null where unknown. Flink's debezium-json needs the option before."
        patch = {
            "type": ["object", "null"],
            "description": "The merge patch (RFC 7386) from before to after, if known.",
        }
        return definitions.struct(
            Envelope,
            before=definitions.state_or_null(before),
            after=definitions.state_or_null("The state after the change; null for a delete."),
            patch=patch if self._patch else None,
        )

    def _of(self, delta: Delta) -> Envelope:
        body = msgspec.Raw(delta.body)
        source = self._source(delta)
        # The log has the last known state as the body of a delete; Debezium sends that state as ``before``.
        if delta.op is Op.DELETED:
            return Envelope("d", body, NULL, source, _milliseconds(delta.time), self._no_patch())
        read = delta.op is Op.ADDED and (delta.evidence is Evidence.LISTED or delta.snapshot is not None)
        earlier = delta.before
        return Envelope(
            op="r" if read else _OPS[delta.op],
            before=NULL if earlier is None or not self._before else msgspec.Raw(earlier),
            after=body,
            source=source,
            ts_ms=_milliseconds(delta.time),
            patch=self._no_patch() if earlier is None or not self._patch else _patch_between(earlier, delta.body),
        )

    def _no_patch(self) -> msgspec.Raw | msgspec.UnsetType:
        return NULL if self._patch else msgspec.UNSET

    def _source(self, delta: Delta) -> EnvelopeSource:
        namespace, _, name = delta.key.rpartition("/")
        return EnvelopeSource(
            cluster=self._cluster,
            group=delta.resource.group,
            version=delta.resource.version,
            resource=delta.resource.plural,
            kind=delta.resource.kind,
            namespace=namespace,
            name=name,
            id=delta.id,
            uid=delta.uid,
            resourceversion=delta.resource_version,
            sequence=delta.sequence,
            evidence=delta.evidence,
            epoch=delta.epoch,
            snapshot="false" if delta.snapshot is None else "last" if delta.last_of_snapshot else "true",
            gap=self.gap or msgspec.UNSET,
        )


def _milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _patch_between(before: bytes, after: bytes) -> msgspec.Raw:
    try:
        return msgspec.Raw(_encode(merge_patch(_decode(before), _decode(after))))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no patch can be made of this: {error}") from error


def merge_patch(before: Any, after: Any) -> Any:
    """The RFC 7386 patch from ``before`` to ``after``. As the RFC demands, lists are replaced whole, and a member that
    became null looks like a removed member."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    patch = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(before[name], dict):
            if inner := merge_patch(before[name], value):
                patch[name] = inner
        elif not _same(before[name], value):
            patch[name] = value
    return patch


def _same(one: Any, other: Any) -> bool:
    # In Python 1 == True, also inside a list, whose JSON is therefore compared.
    return type(one) is type(other) and one == other and (not isinstance(one, list) or _encode(one) == _encode(other))
