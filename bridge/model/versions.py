"""The order of resourceVersions; and the last known versions of very many objects whose bodies are offloaded, with
their checkpoint for a restart.

resourceVersions are integers of any length, comparable within a resource since Kubernetes 1.35 (KEP-5504). Texts that
are no integers have no order, and the caller has to do without.

The table is on the hot path, because every change is compared with it, and where it lies in memory decides the cost.
Three small heap objects for each version cost more with more objects: the freed ones left holes all over the heap, and
the next allocations fell into these, outside every cache. Rows are written in place, and are smaller. The price: with
few objects a comparison costs a little more.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, KeysView, Mapping, MutableMapping
from heapq import nlargest
from struct import Struct

import msgspec

from bridge.model.change import IgnoredChange, ObjectVersion

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


def age_of(version: bytes) -> tuple[int, bytes]:
    """A sort key of versions, oldest first. Versions that are not numbers have no order, and come first."""
    return (len(version), version) if version.isdigit() else (0, b"")


# ── Known versions ───────────────────────────────────────────────────────────

_ROW = Struct("=q19p37p")
"""A sequence number, a version and a uid: 64 bytes. ``p`` stores a text with its length."""

_VERSION = Struct("=8x19p")
"""The version of a row."""

_IGNORING = Struct("=16s19p")
"""A digest, and the version of the exported state: 35 bytes."""

# Longer versions, of other servers, go beside the rows.
_VERSION_BYTES, _UID_BYTES = LONGEST_NUMBER, 36


class VersionTable(MutableMapping[str, ObjectVersion]):
    """Key → last known version, in 64-byte rows of one bytearray. An update allocates nothing that stays, so the heap
    does not fragment: small objects that come and go among hundreds of thousands would leave holes everywhere, and new
    allocations would fall into these holes, far from each other.

    A row has an offloaded version. A version with its body, or too long for a row, is kept in a dict beside the rows.
    A key keeps its row until it is deleted; then another key may take the row.
    """

    def __init__(self, objects: Mapping[str, ObjectVersion] | Iterable[tuple[str, ObjectVersion]] = ()) -> None:
        self._offsets: dict[str, int] = {}
        self._rows = bytearray()
        self._free: list[int] = []
        self._beside: dict[int, ObjectVersion] = {}
        self._members = array("q")
        """``ObjectVersion.members`` by row; empty as long as no object has any."""
        self._ignoring = bytearray()
        """``ObjectVersion.digest`` and ``exported`` by row; empty as long as no object has a digest."""
        self.update(objects)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[str]:
        return iter(self._offsets)

    def keys(self) -> KeysView[str]:
        return self._offsets.keys()

    def __getitem__(self, key: str) -> ObjectVersion:
        """A new value at every call, for a version in a row."""
        offset = self._offsets[key]
        if offset in self._beside:
            return self._beside[offset]
        sequence, version, uid = _ROW.unpack_from(self._rows, offset)
        members = self._members[offset // _ROW.size] if self._members else 0
        if self._ignoring:
            digest, exported = _IGNORING.unpack_from(self._ignoring, offset // _ROW.size * _IGNORING.size)
            known = uid.decode(), version.decode(), sequence, members
            return ObjectVersion(*known, digest if any(digest) else b"", exported.decode())
        return ObjectVersion(uid.decode(), version.decode(), sequence, members)

    def __setitem__(self, key: str, known: ObjectVersion) -> None:
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._offsets[key] = self._new_offset()
        self._beside[offset] = known
        if isinstance(known.state, int):
            self.offload(key, known.state, known.members)

    def __delitem__(self, key: str) -> None:
        offset = self._offsets.pop(key)
        # The bytes of the row stay: rows are only reached through _offsets.
        self._beside.pop(offset, None)
        self._free.append(offset)

    def offload(self, key: str, sequence: int, members: int = 0) -> None:
        """Replaces the body of ``key`` by the sequence number of its record, with the sinks whose selection contains
        the object. An unknown key has no effect."""
        offset = self._offsets.get(key)
        if offset is None:
            return
        known = self._beside.get(offset) or self[key]
        version, uid = known.resource_version.encode(), known.uid.encode()
        if len(version) <= _VERSION_BYTES and len(uid) <= _UID_BYTES and _fits(known.exported):
            _ROW.pack_into(self._rows, offset, sequence, version, uid)
            self._beside.pop(offset, None)
            if members or self._members:
                self._remember(offset // _ROW.size, members)
            if known.digest or self._ignoring:
                self._remember_ignored(offset // _ROW.size, known)
        else:
            self._beside[offset] = msgspec.structs.replace(known, state=sequence, members=members)

    def newest(self, most: int) -> list[str]:
        """Keys of the ``most`` newest versions, newest first. Reads every row."""
        ages = ((age_of(self._version_at(offset)), key) for key, offset in self._offsets.items())
        return [key for _, key in nlargest(most, ages)]

    def _version_at(self, offset: int) -> bytes:
        if offset in self._beside:
            return self._beside[offset].resource_version.encode()
        version: bytes = _VERSION.unpack_from(self._rows, offset)[0]
        return version

    def _remember(self, row: int, members: int) -> None:
        if row >= len(self._members):
            self._members.frombytes(bytes(8 * (len(self._rows) // _ROW.size - len(self._members))))
        self._members[row] = members

    def _remember_ignored(self, row: int, known: ObjectVersion) -> None:
        end = (row + 1) * _IGNORING.size
        if end > len(self._ignoring):
            rows = len(self._rows) // _ROW.size
            self._ignoring.extend(bytes(rows * _IGNORING.size - len(self._ignoring)))
        _IGNORING.pack_into(self._ignoring, row * _IGNORING.size, known.digest, known.exported.encode())

    def _new_offset(self) -> int:
        if self._free:
            return self._free.pop()
        self._rows.extend(bytes(_ROW.size))
        return len(self._rows) - _ROW.size


def _fits(exported: str) -> bool:
    return not exported or len(exported.encode()) <= _VERSION_BYTES


class Deleted(msgspec.Struct, frozen=True):
    """An object whose delete a watch event announced."""

    key: str
    uid: str
    version: str
    """The version of the delete; the object existed at the version before."""


class Checkpoint(msgspec.Struct, frozen=True):
    """An informer's state in the ledger, from before this start. The informer takes over the table."""

    objects: VersionTable
    """Every object that was exported, and not yet exported as deleted. Each state is the sequence number of its
    record."""
    position: str | None
    """The resourceVersion from which a watch may resume; None where a list is needed."""
    newest: str | None
    """The newest resourceVersion that was ever exported or reached: an older list would go back in time. None before
    the first, and where the old versions no longer have an order (another cluster)."""
    epoch: int = 1
    """The epoch in which the informer continues."""
    ignored: IgnoredChange | None = None
    """The newest ignored change. ``objects`` have exported states and versions."""
    deleted: Deleted | None = None
    """The newest delete that a watch event announced in this epoch, if known."""

    @property
    def is_blank(self) -> bool:
        """Whether the informer begins without any state, neither of this epoch nor of earlier epochs."""
        return not self.objects and self.position is None and self.newest is None
