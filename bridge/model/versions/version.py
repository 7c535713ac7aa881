"""Compares resourceVersions, and gives a record the numbers under which it leaves.

resourceVersions are integers of any length, comparable within a resource since Kubernetes 1.35 (KEP-5504). Texts that
are no integers have no order, and the caller has to do without.

A record leaves under the leader of a term (``in_term``). The log's own numbers stay, so that a takeover rewrites no
state. Where the log may lack records, the distance grows, and is added when a record leaves. Numbers stay below 2^53,
which every reader of JSON holds: the term as the upper digits would exceed that in the first term, since numbers begin
at the clock. The term is an attribute of its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from bridge.model.primitives.shard import Shard
from bridge.model.record import Delta, Gap, Record, Snapshot

LONGEST_NUMBER = 18
"""Digits. etcd's revisions count writes, and stay below 10^18."""


def number_of(version: str) -> int | None:
    """The version as a revision of etcd; None if it cannot be one."""
    return int(version) if version.isascii() and version.isdecimal() and len(version) <= LONGEST_NUMBER else None


def newest_of(versions: Iterable[str | None]) -> str | None:
    """The newest version. Of versions without an order the first; None without versions."""
    newest: str | None = None
    for version in versions:
        if version is not None and (newest is None or is_older(newest, version)):
            newest = version
    return newest


def is_reached(version: str, position: str) -> bool:
    """Whether both are integers, and ``version`` is at most ``position``."""
    return version.isdecimal() and position.isdecimal() and (len(version), version) <= (len(position), position)


def is_older(version: str, than: str) -> bool:
    """Whether both are integers, and ``version`` is less than ``than``. An aggregated API may use other texts, which
    have no order: then the answer is False in both directions."""
    if not (version.isdecimal() and than.isdecimal()):
        return False
    # Digits of one length have the order of their numbers, without a conversion.
    return (len(version), version) < (len(than), than)


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
