"""What a destination holds, read back for ``kubedelta verify``: which version of which object, without the bodies."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from bridge.model.change import Op
from bridge.model.formats.cloudevent import GAP_TYPE

_OURS = "kubedelta."
_ABOUT_OBJECTS = ("kubedelta.object.", "kubedelta.envelope.")


class StoredKind(StrEnum):
    OBJECT = "object"
    GAP = "gap"
    NOTICE = "notice"
    """Of the bridge, about its stream and not about an object, and no gap."""
    FOREIGN = "foreign"
    """Not of the bridge, or not to be read."""


class StoredVersion(msgspec.Struct, frozen=True, gc=False):
    """One record as it was found."""

    kind: StoredKind
    partition_key: str = ""
    """``<cluster>/<group>/<resource>/<namespace>/<name>``; of a gap or a notice, the cluster."""
    op: Op | None = None
    """Of an object."""
    uid: str = ""
    resource_version: str = ""


FOREIGN = StoredVersion(StoredKind.FOREIGN)


def partition_key(cluster: str, group: str, plural: str, namespace: str, name: str) -> str:
    """As CloudEvents have it. Group and namespace may be empty."""
    return f"{cluster}/{group}/{plural}/{namespace}/{name}"


def stored_version_of(attributes: Mapping[str, str]) -> StoredVersion:
    """What a record with these attributes of a CloudEvent tells."""
    kind = attributes.get("type", "")
    if not kind.startswith(_OURS):
        return FOREIGN
    key = attributes.get("partitionkey", "")
    if not kind.startswith(_ABOUT_OBJECTS):
        is_marker = "/p" in attributes.get("id", "")  # It is told beside the gap itself, once in each partition.
        return StoredVersion(StoredKind.GAP if kind == GAP_TYPE and not is_marker else StoredKind.NOTICE, key)
    try:
        return StoredVersion(
            StoredKind.OBJECT, key, Op(attributes["op"]), attributes["uid"], attributes["resourceversion"]
        )
    except (KeyError, ValueError):
        return FOREIGN


@dataclass(frozen=True, slots=True)
class ReadFilter:
    """Objects that a reader must not miss; it may find others. None stands for any."""

    group: str | None = None
    """Empty for the core group."""
    version: str | None = None
    plural: str | None = None
    kind: str | None = None
    namespace: str | None = None
    """Empty for what has none."""


class CannotReadBack(Exception):
    """What was sent there cannot be read again, however often it is tried. The message says why."""


class SinkReader(Protocol):
    """Reads one destination. ``open`` once, then ``read`` any number of times, ``close`` once, also after a failed
    ``open``. Runs in the event loop and never blocks it. What a destination or a network can do is raised as the
    ``SinkUnavailable`` of ``sinks.base``."""

    def __init__(self, name: str, options: Any, *, cluster: str) -> None: ...

    async def open(self) -> str:
        """Reach the destination and say in a few words what was found there. Changes nothing there. Raises
        SinkUnavailable, CannotReadBack."""
        ...

    def read(self, sought: Sequence[ReadFilter]) -> AsyncGenerator[Sequence[StoredVersion]]:
        """What is held at this moment, from where the last ``read`` came to its end; the first begins at the
        beginning. Records about one object come in the order in which the destination has them. Raises
        SinkUnavailable; what was given until then is not given again."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What an operator should know about what was read until now: a torn line, for instance."""
        ...

    async def close(self) -> None: ...
