"""A record: one delta as it stands in the outbox and goes to every sink."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from bridge.model.change import Evidence, Known, Op
from bridge.model.resource import Resource


class Delta(msgspec.Struct, frozen=True, gc=False):
    """One exported change. The same change has the same ``id`` after any restart and on any replica."""

    sequence: int
    """Its place in the outbox; ascending, never used twice."""
    op: Op
    evidence: Evidence
    resource: Resource
    key: str
    uid: str
    resource_version: str
    time: str
    """When the bridge saw it: RFC 3339, UTC."""
    epoch: int
    """The leadership term that exported it."""
    body: bytes
    """The object after the change as JSON, stripped and redacted; for a delete, its last known state."""
    before: Known | None = None
    audience: tuple[str, ...] | None = None
    """Names of the sinks this is for; None for all."""

    @property
    def id(self) -> str:
        return f"{self.uid}/{self.resource_version}/{self.op}"

    @property
    def ordering_key(self) -> tuple[str, str]:
        """Records with the same ordering key reach every sink in the order of their sequence."""
        return (self.resource.name, self.key)


class Gap(msgspec.Struct, frozen=True, gc=False):
    """Records that a sink will never get, said in its stream in their place."""

    sequence: int
    """That of the last missing record."""
    first: int
    count: int
    """Missing records, ``first`` and ``sequence`` included."""
    reason: str
    time: str

    @property
    def id(self) -> str:
        return f"gap/{self.first}/{self.sequence}"

    @property
    def ordering_key(self) -> tuple[str, str]:
        return ("", "")


Record: TypeAlias = Delta | Gap
