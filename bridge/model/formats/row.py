"""Changes as rows: flat JSON objects for tables that keep the newest row of each object."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from bridge.model.change import Evidence, Op
from bridge.model.formats.content import MADE, Content, Include
from bridge.model.formats.definitions import Definitions, JsonSchema
from bridge.model.record import Delta

_NULL = msgspec.Raw(b"null")
_NO_CONTENT = Content()
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
    patch: msgspec.Raw | str | msgspec.UnsetType = msgspec.UNSET
    json_patch: msgspec.Raw | str | msgspec.UnsetType = msgspec.UNSET
    changed: msgspec.Raw | str | msgspec.UnsetType = msgspec.UNSET
    managers: msgspec.Raw | str | msgspec.UnsetType = msgspec.UNSET


class Rows:
    """Encodes the changes of a cluster as rows.

    ``state``: whether a column of a state is JSON, a text with JSON in it (for engines without nested columns), or
    left out. ``include``: further columns, in the same form: the state before the change, and differences between the
    states, which are null without a state before.
    """

    name = "row"

    def __init__(self, cluster: str, *, state: RowObject = RowObject.JSON, include: Collection[Include] = ()) -> None:
        self._cluster = cluster
        self._state = state
        self._include = frozenset(include)
        self._has_content = not MADE.isdisjoint(self._include)
        self.gap = ""
        """Id of the newest gap in the stream; empty before the first."""

    def __call__(self, delta: Delta) -> bytes:
        """JSON. Raises ValueError if a state must be a text, and is no UTF-8, or if a difference is included and a
        state cannot be decoded."""
        content = delta.made if self._has_content else _NO_CONTENT
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
                object=self._state_column(delta.body),
                before=self._state_column(delta.before) if Include.BEFORE in self._include else msgspec.UNSET,
                patch=self._included(Include.PATCH, content.patch),
                json_patch=self._included(Include.JSON_PATCH, content.json_patch),
                changed=self._included(Include.CHANGED, content.changed),
                managers=self._included(Include.MANAGERS, content.managers),
            )
        )

    def schema(self, definitions: Definitions) -> JsonSchema:
        as_text = self._state is RowObject.STRING
        state: JsonSchema = {"type": "string", "contentMediaType": "application/json"}
        if self._state is RowObject.JSON:
            state = definitions.state()
        before = {"anyOf": [state, {"type": "null"}], "description": "The state before the change; null where unknown."}
        has_states = self._state is not RowObject.NONE
        after = state | {"description": "The state after the change; of a deleted object the last known state."}
        return definitions.struct(
            DeltaRow,
            object=after if has_states else None,
            before=before if has_states and Include.BEFORE in self._include else None,
            **definitions.differences(self._include, as_text=as_text),
        )

    def _state_column(self, state: bytes | None) -> msgspec.Raw | str | msgspec.UnsetType:
        return msgspec.UNSET if self._state is RowObject.NONE else self._column(state)

    def _included(self, what: Include, found: bytes | None) -> msgspec.Raw | str | msgspec.UnsetType:
        return self._column(found) if what in self._include else msgspec.UNSET

    def _column(self, found: bytes | None) -> msgspec.Raw | str:
        if found is None:
            return _NULL
        return found.decode() if self._state is RowObject.STRING else msgspec.Raw(found)
