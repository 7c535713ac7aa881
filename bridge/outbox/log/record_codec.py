"""The codec between records and rows of the log, and between records and the contents of dead letters.

A row names the resource of its record by a number. ``resources`` reads the resources by their numbers, and a ``Codec``
keeps them, since there is one for each version of a kind that was ever served.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import apsw
import msgspec
from msgspec.structs import replace

from bridge.model.change import OP_OF_NAME, Evidence, Op
from bridge.model.formats.content import parted
from bridge.model.primitives.packing import pack, unpack
from bridge.model.record import Delta, Gap, Record, Selected, Snapshot
from bridge.model.resource import Resource
from bridge.outbox.encryption import Place
from bridge.outbox.errors import Damaged
from bridge.outbox.log.body_codec import BodyCodec
from bridge.outbox.storage.database import columns, one, places, rows_of

GAP = "gap"
"""Stands for the op in the row of a Gap, whose body is JSON."""


class LogRow(NamedTuple):
    """A row of the log. The defaults are those of a Gap, which is of no object."""

    seq: int
    op: str
    evidence: str = ""
    kind: int = 0
    resource: int = 0
    key: str = ""
    uid: str = ""
    version: str = ""
    time: str = ""
    epoch: int = 0
    targets: str | None = None
    takes: int | None = None
    enters: int | None = None
    leaves: int | None = None
    members: int | None = None
    selection: int = 0
    before: bytes | None = None
    body: bytes = b""


LogValues: TypeAlias = tuple[Any, ...]
"""The values of a LogRow, in their order, on the hot path."""
COLUMNS = columns(LogRow)
INSERT = f"INSERT INTO log ({COLUMNS}) VALUES ({places(LogRow)})"

_TYPES = {
    (int, str, str, int, int, str, str, str, str, int, targets, *selected, int, before, bytes)
    for targets in (str, type(None))
    for selected in ((int, int, int, int), (type(None),) * 4)
    for before in (bytes, type(None))
}
"""Valid types of a row's columns. SQLite checks types when a row is written, and trusts the file when it is read."""
_EVIDENCE = {evidence.value: evidence for evidence in Evidence}
encode = msgspec.json.Encoder().encode
_decode_targets = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(frozen=True, slots=True)
class Codec:
    """Resources and dictionaries by the numbers that rows have."""

    resources: dict[int, Resource]
    bodies: BodyCodec


def gap_row(gap: Gap) -> LogRow:
    """The row of a Gap."""
    return LogRow(gap.sequence, GAP, time=gap.time, body=encode(gap))


def record_of(values: LogValues, codec: Codec, op: Op | None = None, before_of: int | None = None) -> Record:
    """The record of a row. For a backfill, ``op`` replaces the row's op, and ``before_of`` is the record whose
    ``before`` the row has. Raises Damaged."""
    # As in LogRow. A row with names costs 3 % of a read of the log.
    sequence, logged, evidence, _, resource, key, uid, version, time, epoch, targets, *decided, before, body = values
    if tuple(map(type, values)) not in _TYPES:
        raise Damaged(f"record {sequence} cannot be read: its types are {[type(each).__name__ for each in values]}")
    try:
        if logged == GAP:
            return msgspec.json.decode(body, type=Gap)
        takes, enters, leaves, members, selection = decided
        state, managers = parted(codec.bodies.unpack_whole(body, Place.body, sequence))
        return Delta(
            sequence,
            op or OP_OF_NAME[logged],
            # Of a record that is no delete, only a selection makes one.
            Evidence.UNSELECTED if op is Op.DELETED and logged != Op.DELETED else _EVIDENCE[evidence],
            codec.resources[resource],
            key,
            uid,
            version,
            time,
            epoch,
            state,
            None if before is None else codec.bodies.unpack(before, Place.before, before_of or sequence),
            None if targets is None else _decode_targets(targets),
            selected=None if takes is None else Selected(takes, enters, leaves, members),
            selection=selection,
            managers=managers,
        )
    except (ValueError, KeyError, msgspec.MsgspecError) as error:
        raise Damaged(f"record {sequence} cannot be read: {error}") from error


# ── In a dead letter ─────────────────────────────────────────────────────────


class _Content(msgspec.Struct, frozen=True):
    """A record with its resource, so that it can be decoded without the log."""

    delta: Delta | None = None
    gap: Gap | None = None
    snapshot: Snapshot | None = None


def encode_record(record: Record) -> bytes:
    """The content of a dead letter. The record is at rest: content is made anew for each attempt."""
    match record:
        case Delta():
            dead_letter = _Content(delta=record if record.content is None else replace(record, content=None))
        case Gap():
            dead_letter = _Content(gap=record)
        case Snapshot():
            dead_letter = _Content(snapshot=record)
    return pack(msgspec.msgpack.encode(dead_letter))


def decode_record(dead_letter: bytes) -> Record:
    """The record of a dead letter. Raises Damaged."""
    try:
        found = msgspec.msgpack.decode(unpack(dead_letter), type=_Content)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Damaged(f"a dead letter cannot be read: {error}") from error
    record = found.delta or found.gap or found.snapshot
    if record is None:
        raise Damaged("a dead letter is empty")
    return record


# ── Kinds and resources ──────────────────────────────────────────────────────


class _ResourceRow(NamedTuple):
    id: int
    api_group: str
    version: str
    plural: str
    object_kind: str
    namespaced: int


def resources(database: apsw.Connection) -> dict[int, Resource]:
    """Resources by their numbers."""
    return {
        each.id: Resource(each.api_group, each.version, each.plural, each.object_kind, bool(each.namespaced))
        for each in rows_of(database, _ResourceRow, f"SELECT {columns(_ResourceRow)} FROM resources")
    }


def kinds(database: apsw.Connection) -> dict[str, int]:
    """Names of resources → their numbers."""
    return {name: number for number, name in database.execute("SELECT id, name FROM kinds")}


def kind_id(database: apsw.Connection, name: str) -> int:
    """The number of a kind; a new kind gets the next number, and begins in the epoch of ``meta``."""
    database.execute("INSERT OR IGNORE INTO kinds (name, epoch) SELECT ?, epoch FROM meta", (name,))
    return one(database, "SELECT id FROM kinds WHERE name = ?", (name,))


def resource_id(database: apsw.Connection, resource: Resource) -> int:
    """The number of a resource; a new version gets the next number."""
    values = (resource.group, resource.version, resource.plural, resource.kind, int(resource.namespaced))
    database.execute(
        "INSERT OR IGNORE INTO resources (kind, api_group, version, plural, object_kind, namespaced)"
        " VALUES (?,?,?,?,?,?)",
        (kind_id(database, resource.name), *values),
    )
    return one(
        database,
        "SELECT id FROM resources WHERE api_group = ? AND version = ? AND plural = ? AND object_kind = ?"
        " AND namespaced = ?",
        values,
    )
