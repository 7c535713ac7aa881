"""What etcd and the watch cache are to a real API server: objects in versions, and the changes that led to them.

One counter numbers the changes of all collections. Each collection remembers its last ``history`` changes: a watch may
begin, and a list be read, at any version since. Nothing here knows HTTP, a clock or an event loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec


class Forgotten(Exception):
    """The version is older than what is remembered. ``oldest`` is the oldest from which a watch may begin."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"older than {oldest}")
        self.oldest = oldest


class Stored(msgspec.Struct, frozen=True, gc=False):
    """One version of one object. Its JSON is kept in three parts, so that the same bytes serve every API version it is
    read in, and the later resourceVersion at which a watch is told that it has gone."""

    key: str
    """``namespace/name``, or the name alone."""
    uid: str
    version: int
    labels: dict[str, str]
    opening: bytes
    """Up to the value of apiVersion."""
    middle: bytes
    """From there up to the value of metadata.resourceVersion."""
    closing: bytes

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def body(self, api_version: bytes, version: int | None = None) -> bytes:
        """The whole object as JSON; ``version`` instead of its own, where one is given."""
        return b"".join((self.opening, api_version, self.middle, b"%d" % (version or self.version), self.closing))


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change. ``before`` is None for an object that is new, ``after`` for one that is gone."""

    version: int
    key: str
    before: Stored | None
    after: Stored | None


@dataclass(frozen=True, slots=True)
class Range:
    """Objects of one collection at one version, sorted by key."""

    keys: list[str]
    objects: Mapping[str, Stored]

    def under(self, namespace: str, after: str = "") -> Iterator[Stored]:
        """Those of a namespace ("" for all), behind the key ``after``."""
        prefix = f"{namespace}/" if namespace else ""
        start = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after) if after else 0)
        end = bisect_left(self.keys, f"{namespace}0") if namespace else len(self.keys)  # "0" is the sign behind "/"
        return (self.objects[self.keys[at]] for at in range(start, end))


@dataclass(slots=True)
class Collection:
    """The objects of one resource."""

    history: int
    floor: int
    """Changes up to and including this version are forgotten."""
    objects: dict[str, Stored] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    dropped: int = 0
    """Events that were dropped from the front of ``events``; a position is counted from the first ever."""
    to_lose: int = 0
    """So many changes to come are made and not announced."""
    listeners: set[Callable[[], None]] = field(default_factory=set)
    """Called after every change, and at the end."""
    ended: bool = False
    """Its resource is no longer served."""

    def apply(self, event: Event) -> None:
        if event.after is None:
            del self.objects[event.key]
            del self.keys[bisect_left(self.keys, event.key)]
        else:
            if event.key not in self.objects:
                insort(self.keys, event.key)
            self.objects[event.key] = event.after
        if self.to_lose:
            self.to_lose -= 1
            return
        self.events.append(event)
        self._trim()
        self._tell()

    def end(self) -> None:
        self.ended = True
        self._tell()

    def position_after(self, version: int) -> int:
        """Where in the history the changes after this version begin. Raises Forgotten."""
        if version < self.floor:
            raise Forgotten(self.floor)
        return self.dropped + bisect_right(self.events, version, key=lambda event: event.version)

    def since(self, position: int) -> list[Event]:
        """The changes from that position on. Raises Forgotten for one that has fallen behind."""
        if position < self.dropped:
            raise Forgotten(self.floor)
        return self.events[position - self.dropped :]

    def at(self, version: int) -> Range:
        """The objects as they were then. Raises Forgotten."""
        later = self.since(self.position_after(version))
        if not later:
            return Range(self.keys, self.objects)
        then = dict(self.objects)
        for event in reversed(later):
            if event.before is not None:
                then[event.key] = event.before
            else:
                then.pop(event.key, None)
        return Range(sorted(then), then)

    def forget(self, version: int) -> None:
        """Forget the changes up to and including this version."""
        position = self.dropped + bisect_right(self.events, version, key=lambda event: event.version)
        self._drop(position - self.dropped)
        self.floor = max(self.floor, version)

    def replace(self, objects: Mapping[str, Stored], version: int) -> None:
        """Hold these from now on; nothing older than ``version`` is remembered."""
        self.objects, self.keys = dict(objects), sorted(objects)
        self._drop(len(self.events))
        self.floor = version

    def _tell(self) -> None:
        for heard in tuple(self.listeners):
            heard()

    def _trim(self) -> None:
        surplus = len(self.events) - self.history
        if surplus > 0:
            self.floor = self.events[surplus - 1].version
        # In slices: dropping one event at a time would move the whole list every time.
        if surplus > self.history // 4:
            self._drop(surplus)

    def _drop(self, count: int) -> None:
        del self.events[:count]
        self.dropped += count


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects at one version."""

    version: int
    objects: Mapping[str, Mapping[str, Stored]]


class Store:
    """All collections under one counter."""

    def __init__(self, history: int) -> None:
        self.version = 1
        self.listeners: set[Callable[[], None]] = set()
        """Called after every change of any collection."""
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """Made when it is first asked for."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self._history, floor=0)
        return found

    def begin(self, name: str) -> None:
        """An empty collection that knows no changes before now."""
        self._collections[name] = Collection(self._history, floor=self.version)

    def end(self, name: str) -> None:
        """Its resource is no longer served: watches of it end."""
        if ended := self._collections.pop(name, None):
            ended.end()

    def commit(self, name: str, key: str, before: Stored | None, after: Stored | None) -> int:
        """Make one change. ``after`` has the version ``self.version + 1``. Returns the version of the change."""
        self.version += 1
        self.collection(name).apply(Event(self.version, key, before, after))
        for heard in tuple(self.listeners):
            heard()
        return self.version

    def compact(self) -> None:
        """Forget every change until now, in all collections."""
        for each in self._collections.values():
            each.forget(self.version)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.version, {name: dict(each.objects) for name, each in self._collections.items()})

    def restore(self, snapshot: Snapshot) -> None:
        """Be what was, as etcd after a restore: the counter goes back and no history is left."""
        self.version = snapshot.version
        for name in self._collections.keys() | snapshot.objects.keys():
            self.collection(name).replace(snapshot.objects.get(name, {}), self.version)
