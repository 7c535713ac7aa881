"""What is known of very many objects whose bodies rest elsewhere, and what is remembered of them after a restart.

Hot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping, MutableMapping
from dataclasses import dataclass
from heapq import nlargest
from struct import Struct

from bridge.model.change import ObjectVersion

_ROW = Struct("=q19p37p")
"""A sequence number, a version and a uid: 64 bytes. A text has its length with it, and comes back as it was."""

_VERSION = Struct("=8x19p")
"""Of a row, the version alone."""

_VERSION_BYTES, _UID_BYTES = 18, 36


def age_of(version: bytes) -> tuple[int, bytes]:
    """Orders versions, oldest first; what is no number has no order, and comes before those that have."""
    return (len(version), version) if version.isdigit() else (0, b"")


class VersionTable(MutableMapping[str, ObjectVersion]):
    """Keys → what is known, as in a dict, but in rows that are written in place: where an object changes and rests
    again, nothing that stays is made in the heap, and nothing that stayed comes to its end. Small things that come and
    go among hundreds of thousands leave holes all over; whatever the process makes next falls into them, far from all
    that it works with.

    A row has what rests. What has its body with it, or is too long for a row, is kept beside the rows as it came. A key
    has its place in the rows for as long as it is known; then another may have it.
    """

    def __init__(self, objects: Mapping[str, ObjectVersion] | Iterable[tuple[str, ObjectVersion]] = ()) -> None:
        self._places: dict[str, int] = {}
        self._rows = bytearray()
        self._free: list[int] = []
        self._beside: dict[int, ObjectVersion] = {}
        self.update(objects)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def keys(self) -> KeysView[str]:
        return self._places.keys()

    def __getitem__(self, key: str) -> ObjectVersion:
        """Of what rests, made anew at every call."""
        place = self._places[key]
        if place in self._beside:
            return self._beside[place]
        sequence, version, uid = _ROW.unpack_from(self._rows, place)
        return ObjectVersion(uid.decode(), version.decode(), sequence)

    def __setitem__(self, key: str, known: ObjectVersion) -> None:
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._new_place()
        if isinstance(known.state, int):
            self._rest(place, known, known.state)
        else:
            self._beside[place] = known

    def __delitem__(self, key: str) -> None:
        place = self._places.pop(key)
        self._beside.pop(place, None)
        self._free.append(place)

    def rest(self, key: str, sequence: int) -> None:
        """What is known is the same, its state this number. No error where nothing is known."""
        place = self._places.get(key)
        if place is not None:
            self._rest(place, self._beside.get(place) or self[key], sequence)

    def newest(self, most: int) -> list[str]:
        """Keys of the objects with the newest versions, newest first. Looks at every row."""
        ages = ((age_of(self._version_at(place)), key) for key, place in self._places.items())
        return [key for _, key in nlargest(most, ages)]

    def _version_at(self, place: int) -> bytes:
        if place in self._beside:
            return self._beside[place].resource_version.encode()
        version: bytes = _VERSION.unpack_from(self._rows, place)[0]
        return version

    def _rest(self, place: int, known: ObjectVersion, sequence: int) -> None:
        version, uid = known.resource_version.encode(), known.uid.encode()
        if len(version) <= _VERSION_BYTES and len(uid) <= _UID_BYTES:
            _ROW.pack_into(self._rows, place, sequence, version, uid)
            self._beside.pop(place, None)
        else:
            self._beside[place] = ObjectVersion(known.uid, known.resource_version, sequence)

    def _new_place(self) -> int:
        if self._free:
            return self._free.pop()
        self._rows.extend(bytes(_ROW.size))
        return len(self._rows) - _ROW.size


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object whose delete the server announced."""

    key: str
    uid: str
    version: str
    """Of the delete: at the one before it, the object was there."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What the ledger has of one informer from before this start; which takes the table over."""

    objects: VersionTable
    """Every object that was told and not told deleted, by key; each state is the sequence number of its record."""
    position: str | None
    """The resourceVersion from which a watch may go on; None where only a list can tell what happened."""
    newest: str | None
    """The newest resourceVersion that was ever told or reached: a list that is older than this would go back in time.
    None where nothing orders them any more (another cluster), or nothing was told."""
    epoch: int = 1
    """Goes on from here."""
    deleted: Deleted | None = None
    """The newest delete that the server announced in this epoch, as far as that is known."""

    @property
    def is_blank(self) -> bool:
        """Nothing was told or reached in this epoch, and nothing is known from earlier ones: its informer begins."""
        return not self.objects and self.position is None and self.newest is None
