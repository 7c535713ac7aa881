"""Records as they leave under the leader of a term.

The log's own numbers stay, so that a takeover rewrites no state. Where it may lack records, the distance grows, and is
added when a record leaves. Numbers stay below 2^53, which every reader of JSON holds: the term as the upper digits
would exceed that in the first term, since numbers begin at the clock. The term is an attribute of its own.
"""

from __future__ import annotations

from msgspec.structs import replace

from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Gap, Record, Snapshot


def in_term(record: Record, term: int, ahead: int) -> Record:
    """The record with the term, and with numbers that are larger by ``ahead`` than those of the replica's own log: so
    they ascend over all leaders. Ids stay, except those of notices, which have numbers in them."""
    number = record.sequence + ahead
    match record:
        case Delta():
            snapshot = None if record.snapshot is None else _renamed(record.snapshot, bool(record.replay), ahead)
            return replace(record, sequence=number, term=term, snapshot=snapshot)
        case Snapshot():
            return replace(record, sequence=number, term=term)
        case _:
            return replace(record, sequence=number, first=record.first + ahead, term=term)


def gap_in_shard(record: Record, shard: Shard) -> Record:
    """A Gap with the shard in its id: other bridges have records with the same numbers. Other records stay."""
    return replace(record, shard=shard.name) if isinstance(record, Gap) else record


def _renamed(snapshot: str, numbered: bool, ahead: int) -> str:
    """``record.snapshot_id`` of a larger number. ``numbered``: of a snapshot on demand."""
    parts = snapshot.split("/")
    at = -2 if numbered else -1
    parts[at] = str(int(parts[at]) + ahead)
    return "/".join(parts)
