"""The objects that a notice of a backfill is about: of a Gap as the JSON of numbers, of a snapshot as that of names."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridge.model.primitives.shard import Shard
from bridge.model.record import Concern, Delta, Record, Snapshot, SnapshotScope
from bridge.model.resource import Resource
from bridge.outbox.errors import Damaged

_encode_concerns = msgspec.json.Encoder().encode
_decode_concerns = msgspec.json.Decoder(list[tuple[int, str | None]]).decode
_decode_scope = msgspec.json.Decoder(SnapshotScope).decode

MOST_CONCERNS = 1_000
"""Pairs of resource and namespace in a Gap. A Gap about more pairs names the resources only."""


class GapConcerns:
    """Collects resources by number, with the namespaces of the missing records."""

    def __init__(self) -> None:
        self._found: set[tuple[int, str | None]] | None = set()
        self._named = True
        """False above ``MOST_CONCERNS`` pairs: then resources stand without namespaces."""

    def add(self, resource: int, key: str) -> None:
        """Adds the resource and the namespace of a missing record."""
        namespace, slash, _ = key.partition("/")
        self._add(resource, namespace if slash else None)

    def add_all(self, concerns: str | None) -> None:
        """Adds the pairs of an earlier Gap; None means any resource."""
        if concerns is None:
            self._found = None
            return
        for resource, namespace in _decode_concerns(concerns):
            self._add(resource, namespace)

    def text(self) -> str | None:
        """For ``BackfillItem.concerns``."""
        return None if self._found is None else _encode_concerns(sorted(self._found, key=str)).decode()

    def _add(self, resource: int, namespace: str | None) -> None:
        if self._found is None:
            return
        self._found.add((resource, namespace if self._named else None))
        if self._named and len(self._found) > MOST_CONCERNS:
            self._named = False
            self._found = {(each, None) for each, _ in self._found}


def concerns_of(concerns: str | None, resources: Mapping[int, Resource]) -> tuple[Concern, ...] | None:
    """The concerns of a Gap; None if they are unknown. Raises Damaged."""
    if concerns is None:
        return None
    try:
        return tuple(Concern(resources[number], namespace) for number, namespace in _decode_concerns(concerns))
    except (KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"the resources of a gap cannot be read: {error!r}") from error


def in_shard(record: Record, shard: Shard) -> Record:
    """A record of a snapshot with the shard, since other bridges have the other objects, and the same numbers: of its
    edges it is a condition. Other records stay as they are."""
    if isinstance(record, Snapshot):
        return msgspec.structs.replace(
            record, only=msgspec.structs.replace(record.only or SnapshotScope(), shard=shard)
        )
    if not isinstance(record, Delta) or record.snapshot is None:
        return record
    return msgspec.structs.replace(record, snapshot=record.snapshot.replace("/", f"/{shard.name}/", 1))


def scope_text(scope: SnapshotScope | None) -> str:
    """For ``BackfillItem.concerns``; empty for every object of the sink."""
    return "" if scope is None else _encode_concerns(scope).decode()


def scope_of(text: str | None) -> SnapshotScope | None:
    """The objects of a snapshot; None for every object of the sink. Raises Damaged."""
    try:
        return _decode_scope(text) if text else None
    except msgspec.MsgspecError as error:
        raise Damaged(f"the objects of a snapshot cannot be read: {error!r}") from error
