"""Records that ``kubedelta verify`` reads back from a destination: identity and version of the object, no body."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from bridge.model.change import Op
from bridge.model.formats.cloudevent import GAP_TYPE

_OURS = "kubedelta."
_ABOUT_OBJECTS = ("kubedelta.object.", "kubedelta.envelope.", "kubedelta.row.")


class StoredKind(StrEnum):
    OBJECT = "object"
    GAP = "gap"
    NOTICE = "notice"
    """A notice of the bridge other than a gap."""
    FOREIGN = "foreign"
    """A record of another program, or without the attributes of a CloudEvent."""


class StoredVersion(msgspec.Struct, frozen=True, gc=False):
    """A record at the destination."""

    kind: StoredKind
    partition_key: str = ""
    """``<cluster>/<group>/<resource>/<namespace>/<name>``; for a gap or a notice, the cluster."""
    op: Op | None = None
    """None unless the record is about an object; so are the fields below empty."""
    uid: str = ""
    resource_version: str = ""


FOREIGN = StoredVersion(StoredKind.FOREIGN)


def stored_version_of(attributes: Mapping[str, str]) -> StoredVersion:
    """Classifies a record by the attributes of its CloudEvent."""
    kind = attributes.get("type", "")
    if not kind.startswith(_OURS):
        return FOREIGN
    key = attributes.get("partitionkey", "")
    if not kind.startswith(_ABOUT_OBJECTS):
        is_marker = "/p" in attributes.get("id", "")  # Kafka's copies of a gap, one in each partition.
        return StoredVersion(StoredKind.GAP if kind == GAP_TYPE and not is_marker else StoredKind.NOTICE, key)
    try:
        return StoredVersion(
            StoredKind.OBJECT, key, Op(attributes["op"]), attributes["uid"], attributes["resourceversion"]
        )
    except (KeyError, ValueError):
        return FOREIGN


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """A filter of objects. A reader may return more objects than match, but none less. None matches any."""

    group: str | None = None
    """Empty for the core group."""
    version: str | None = None
    plural: str | None = None
    kind: str | None = None
    namespace: str | None = None
    """Empty for objects without namespace."""


class CannotReadBack(Exception):
    """The destination cannot be read back, and a retry cannot help. The message has the reason."""


class SinkReader(Protocol):
    """Reads the records of a destination. Call ``open`` once, then ``read`` any number of times, and ``close`` once,
    also after a failed ``open``. Runs on the event loop and never blocks it. Failures of a destination or a network are
    raised as ``sinks.base.SinkUnavailable``."""

    def __init__(self, name: str, options: Any, *, cluster: str) -> None: ...

    async def open(self) -> str:
        """Connects, without any change at the destination. Returns a short description of the destination for the
        operator. Raises SinkUnavailable, CannotReadBack."""
        ...

    def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        """Yields records in batches: from the end of the previous ``read`` (the first begins at the beginning) to the
        present end. Records of one object come in the destination's order. Raises SinkUnavailable; the next ``read``
        goes on behind the records that were yielded before the failure."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Findings for the operator so far, such as a torn line."""
        ...

    @property
    def left(self) -> int | None:
        """Records that the present ``read`` has still to read; None if unknown."""
        ...

    async def close(self) -> None: ...
