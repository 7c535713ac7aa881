"""Changes as rows: flat JSON objects for tables that keep the newest row of each object."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.record import Delta

_NULL = msgspec.Raw(b"null")
_Text = Annotated[str, Meta(min_length=1)]
_Number = Annotated[str, Meta(pattern="^[0-9]+$")]
_encode = msgspec.json.Encoder().encode


class RowObject(StrEnum):
    """The column of an object's state."""

    JSON = "json"
    STRING = "string"
    NONE = "none"


class DeltaRow(msgspec.Struct, frozen=True, gc=False):
    """A change of an object. The columns of the object's identity come first, the state last."""

    cluster: Annotated[str, Meta(description="The configured name of the cluster.")]
    group: Annotated[str, Meta(description="The API group; empty for the core group.")]
    version: Annotated[_Text, Meta(description="The version of the API group, in which the state is written.")]
    resource: Annotated[_Text, Meta(description="The plural, such as deployments.")]
    kind: Annotated[_Text, Meta(description="Such as Deployment.")]
    namespace: Annotated[str, Meta(description="Empty for an object without a namespace.")]
    name: Annotated[_Text, Meta(description="The name of the object. A later object may have the same name.")]
    uid: Annotated[str, Meta(description="The identity of the object.")]
    resource_version: Annotated[str, Meta(description="An opaque text of the API server; in most clusters a number.")]
    op: Annotated[Op, Meta(description="The change; sync for an unchanged object that is delivered again.")]
    deleted: Annotated[Literal[0, 1], Meta(description="1 if the object is gone. Its state is the last known state.")]
    evidence: Annotated[Evidence, Meta(description="How the bridge knows of the change.")]
    time: Annotated[str, Meta(description="When the bridge saw the change: RFC 3339, UTC.")]
    epoch: Annotated[int, Meta(ge=1, description="The period in which an id is unique.")]
    sequence: Annotated[
        _Number, Meta(description="The version of the row: the row with the largest number is the newest.")
    ]
    snapshot: Annotated[str | None, Meta(description="The id of the snapshot that the row belongs to.")]
    gap: Annotated[str | None, Meta(description="The id of the newest gap in the stream, of records that are missing.")]
    id: Annotated[_Text, Meta(description="Identifies the change within cluster and epoch, also when it is repeated.")]
    object: msgspec.Raw | str | msgspec.UnsetType
    before: msgspec.Raw | str | msgspec.UnsetType = msgspec.UNSET


class Rows:
    """Encodes the changes of a cluster as rows.

    ``state``: whether a column of a state is JSON, a text with JSON in it (for engines without nested columns), or
    left out. ``before``: also a column with the state before the change.
    """

    name = "row"

    def __init__(self, cluster: str, *, state: RowObject = RowObject.JSON, before: bool = False) -> None:
        self._cluster = cluster
        self._state = state
        self._before = before
        self.gap = ""
        """Id of the newest gap in the stream; empty before the first."""

    def __call__(self, delta: Delta) -> bytes:
        """JSON. Raises ValueError if a state must be a text, and is no UTF-8."""
        namespace, _, name = delta.key.rpartition("/")
        resource = delta.resource
        return _encode(
            DeltaRow(
                cluster=self._cluster,
                group=resource.group,
                version=resource.version,
                resource=resource.plural,
                kind=resource.kind,
                namespace=namespace,
                name=name,
                uid=delta.uid,
                resource_version=delta.resource_version,
                op=delta.op,
                deleted=1 if delta.op is Op.DELETED else 0,
                evidence=delta.evidence,
                time=delta.time,
                epoch=delta.epoch,
                sequence=str(delta.sequence),
                snapshot=delta.snapshot,
                gap=self.gap or None,
                id=delta.id,
                object=self._column(delta.body),
                before=self._column(delta.before) if self._before else msgspec.UNSET,
            )
        )

    def schema(self, definitions: Definitions) -> JsonSchema:
        match self._state:
            case RowObject.NONE:
                return definitions.struct(DeltaRow, object=None, before=None)
            case RowObject.JSON:
                state = definitions.state()
            case RowObject.STRING:
                state = {"type": "string", "contentMediaType": "application/json"}
        before = {"anyOf": [state, {"type": "null"}], "description": "The state before the change; null where unknown."}
        return definitions.struct(
            DeltaRow,
            object=state | {"description": "The state after the change; of a deleted object the last known state."},
            before=before if self._before else None,
        )

    def _column(self, state: bytes | None) -> msgspec.Raw | str | msgspec.UnsetType:
        if self._state is RowObject.NONE:
            return msgspec.UNSET
        if state is None:
            return _NULL
        return msgspec.Raw(state) if self._state is RowObject.JSON else state.decode()
