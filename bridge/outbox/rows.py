"""Records as rows of the log, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from bridge.model.change import Evidence, Op
from bridge.model.packing import pack, unpack
from bridge.model.record import Delta, Gap, Record, Snapshot
from bridge.model.resource import Resource
from bridge.outbox.bodies import Bodies
from bridge.outbox.errors import Damaged

GAP = "gap"
"""In place of an op: the row is a Gap, its body is JSON."""

COLUMNS = "seq, op, evidence, kind, resource, key, uid, version, time, epoch, audience, before, body"
INSERT = f"INSERT INTO log ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"

LogRow: TypeAlias = tuple[
    int, str, str, int, int, str, str, str, str, int, str | None, bytes | None, bytes
]  # As INSERT.

_TYPES = {
    (int, str, str, int, int, str, str, str, str, int, audience, before, bytes)
    for audience in (str, type(None))
    for before in (bytes, type(None))
}
"""Of the columns of a row. SQLite checks them when a row is written, and believes the file when it is read."""
_OPS = {op.value: op for op in Op}
_EVIDENCE = {evidence.value: evidence for evidence in Evidence}
_encode = msgspec.json.Encoder().encode
_decode_audience = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True)
class Codec:
    """What rows say by number."""

    resources: dict[int, Resource]
    bodies: Bodies


def delta_row(delta: Delta, kind: int, resource: int, bodies: Bodies) -> LogRow:
    """Compresses the body."""
    return (
        delta.sequence,
        delta.op.value,
        delta.evidence.value,
        kind,
        resource,
        delta.key,
        delta.uid,
        delta.resource_version,
        delta.time,
        delta.epoch,
        None if delta.audience is None else _encode(delta.audience).decode(),
        None if delta.before is None else bodies.pack(kind, delta.before),
        bodies.pack(kind, delta.body),
    )


def gap_row(gap: Gap) -> LogRow:
    return (gap.sequence, GAP, "", 0, 0, "", "", "", gap.time, 0, None, None, _encode(gap))


def record_of(row: Sequence[Any], codec: Codec, op: Op | None = None) -> Record:
    """``op`` in place of the one the row has, for a selection. Raises Damaged."""
    sequence, told, evidence, _, resource, key, uid, version, time, epoch, audience, before, body = row
    if tuple(map(type, row)) not in _TYPES:
        raise Damaged(f"record {sequence} cannot be read: it has the types {[type(each).__name__ for each in row]}")
    try:
        if told == GAP:
            return msgspec.json.decode(body, type=Gap)
        return Delta(
            sequence,
            op or _OPS[told],
            _EVIDENCE[evidence],
            codec.resources[resource],
            key,
            uid,
            version,
            time,
            epoch,
            codec.bodies.unpack(body),
            None if before is None else codec.bodies.unpack(before),
            None if audience is None else _decode_audience(audience),
        )
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"record {sequence} cannot be read: {error}") from error


# ── In a dead letter ─────────────────────────────────────────────────────────


class _Letter(msgspec.Struct, frozen=True):
    """A record by itself: what became of the log does not matter to it."""

    delta: Delta | None = None
    gap: Gap | None = None
    snapshot: Snapshot | None = None


def sealed(record: Record) -> bytes:
    match record:
        case Delta():
            letter = _Letter(delta=record)
        case Gap():
            letter = _Letter(gap=record)
        case Snapshot():
            letter = _Letter(snapshot=record)
    return pack(msgspec.msgpack.encode(letter))


def opened(letter: bytes) -> Record:
    """Raises Damaged."""
    try:
        found = msgspec.msgpack.decode(unpack(letter), type=_Letter)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Damaged(f"a dead letter cannot be read: {error}") from error
    record = found.delta or found.gap or found.snapshot
    if record is None:
        raise Damaged("a dead letter is empty")
    return record
