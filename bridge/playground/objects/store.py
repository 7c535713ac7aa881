"""Stores versions of objects, and the changes between them, in the place of a real server's etcd and watch cache.

A single counter numbers the changes of all collections. Each collection keeps its last ``history`` changes: a list may
be read at any version among them, and a watch may begin there, unless the watch cache was emptied since. The store has
no HTTP, clock or event loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec


class Forgotten(Exception):
    """The version is older than the history. ``oldest`` is the oldest version from which a watch may begin."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"older than {oldest}")
        self.oldest = oldest


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """A version of an object. Its JSON is kept in three parts, so that the same bytes serve every API version, and the
    later resourceVersion of a DELETED event."""

    key: str
    """``namespace/name``, or the name alone."""
    uid: str
    version: int
    labels: dict[str, str]
    opening: bytes
    """The JSON before the value of apiVersion."""
    middle: bytes
    """The JSON from there to the value of metadata.resourceVersion."""
    closing: bytes

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def body(self, api_version: bytes, version: int | None = None) -> bytes:
        """The whole object as JSON; ``version`` replaces its own resourceVersion."""
        return b"".join((self.opening, api_version, self.middle, b"%d" % (version or self.version), self.closing))


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change. ``before`` is None for a new object, ``after`` is None for a deleted object."""

    version: int
    key: str
    before: StoredObject | None
    after: StoredObject | None


@dataclass(frozen=True, slots=True)
class Range:
    """The objects of a collection at a version, sorted by key."""

    keys: list[str]
    objects: Mapping[str, StoredObject]

    def under(self, namespace: str, after: str = "") -> Iterator[StoredObject]:
        """The objects of a namespace ("" for all) whose keys follow ``after``."""
        prefix = f"{namespace}/" if namespace else ""
        start = max(bisect_left(self.keys, prefix), bisect_right(self.keys, after) if after else 0)
        # "0" follows "/" in ASCII, so this key follows all keys of the namespace.
        end = bisect_left(self.keys, f"{namespace}0") if namespace else len(self.keys)
        return (self.objects[self.keys[at]] for at in range(start, end))


@dataclass(slots=True)
class Collection:
    """The objects of a resource, with its latest changes."""

    history: int
    floor: int
    """Changes up to and including this version are forgotten."""
    cached_from: int = 0
    """A watch may begin at this version or later."""
    objects: dict[str, StoredObject] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    dropped: int = 0
    """Events dropped from the front of ``events``. Positions count all events since the beginning."""
    listeners: set[Callable[[], None]] = field(default_factory=set)
    """Called after every change, and at the end."""
    ended: bool = False
    """The resource is no longer served."""
    replayed: int = 0
    """The version of its last change, where changes have versions of their own; 0 where the store numbers them."""

    def apply(self, event: Event) -> None:
        if event.after is None:
            del self.objects[event.key]
            del self.keys[bisect_left(self.keys, event.key)]
        else:
            if event.key not in self.objects:
                insort(self.keys, event.key)
            self.objects[event.key] = event.after
        self.events.append(event)
        self._trim()
        self._notify()

    def end(self) -> None:
        self.ended = True
        self._notify()

    def position_after(self, version: int) -> int:
        """The position of the first change after this version. Raises Forgotten."""
        if version < self.floor:
            raise Forgotten(self.floor)
        return self.dropped + bisect_right(self.events, version, key=lambda event: event.version)

    def watch_position(self, version: int) -> int:
        """The position of the first change of a watch after this version. Raises Forgotten."""
        if version < self.cached_from:
            raise Forgotten(self.cached_from)
        return self.position_after(version)

    def since(self, position: int) -> list[Event]:
        """The changes from a position on. Raises Forgotten if they were dropped."""
        if position < self.dropped:
            raise Forgotten(self.floor)
        return self.events[position - self.dropped :]

    def at(self, version: int) -> Range:
        """The objects at an earlier version. Raises Forgotten."""
        # Backwards from now: histories are short, and lists at old versions are rare.
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
        """Drops the changes up to and including this version."""
        position = self.dropped + bisect_right(self.events, version, key=lambda event: event.version)
        self._drop(position - self.dropped)
        self.floor = max(self.floor, version)

    def replace(self, objects: Mapping[str, StoredObject], version: int) -> None:
        """Replaces all objects. The history begins anew at ``version``."""
        self.objects, self.keys = dict(objects), sorted(objects)
        self._drop(len(self.events))
        self.floor = self.cached_from = version

    def _notify(self) -> None:
        for listener in tuple(self.listeners):
            listener()

    def _trim(self) -> None:
        surplus = len(self.events) - self.history
        if surplus > 0:
            self.floor = self.events[surplus - 1].version
        # In slices, because each drop moves the whole list.
        if surplus > self.history // 4:
            self._drop(surplus)

    def _drop(self, count: int) -> None:
        del self.events[:count]
        self.dropped += count


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """All objects at a version."""

    version: int
    objects: Mapping[str, Mapping[str, StoredObject]]


class ObjectStore:
    """All collections, with a common counter of versions."""

    def __init__(self, history: int) -> None:
        self.version = 1
        self.listeners: set[Callable[[], None]] = set()
        """Called after every change of any collection."""
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """The collection of this name, made by the first call."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(self._history, floor=0)
        return found

    def begin(self, name: str) -> None:
        """Replaces a collection by an empty one, whose history begins now."""
        self._collections[name] = Collection(self._history, floor=self.version)

    def end(self, name: str) -> None:
        """Removes a collection whose resource is no longer served, and ends its watches."""
        if ended := self._collections.pop(name, None):
            ended.end()

    def commit(self, name: str, key: str, before: StoredObject | None, after: StoredObject | None) -> int:
        """Makes a change, and returns its version. ``after`` must have the version ``self.version + 1``."""
        self.version += 1
        self._apply(name, Event(self.version, key, before, after))
        return self.version

    def version_of(self, name: str) -> int:
        """The version of the whole collection now."""
        return self.collection(name).replayed or self.version

    def load(self, name: str, objects: Mapping[str, StoredObject]) -> None:
        """Fills a collection, whose history begins now, with objects that have versions of their own."""
        collection = self.collection(name)
        collection.replayed = max((each.version for each in objects.values()), default=1)
        collection.replace(objects, collection.replayed)
        self.version = max(self.version, collection.replayed)

    def replay(self, name: str, key: str, version: int, after: StoredObject | None) -> None:
        """Makes a change that had a version of its own, above ``version_of`` the collection; not of the store: in a
        recording, changes of several resources are only about in the order of their versions."""
        collection = self.collection(name)
        collection.replayed = version
        self.version = max(self.version, version)
        self._apply(name, Event(version, key, collection.objects.get(key), after))

    def _apply(self, name: str, event: Event) -> None:
        self.collection(name).apply(event)
        for listener in tuple(self.listeners):
            listener()

    def compact(self) -> None:
        """Drops the history of all collections."""
        for each in self._collections.values():
            each.forget(self.version)

    def empty_watch_cache(self) -> None:
        """Acts as the restart of an API server: no watch may begin before now, and the history stays."""
        for each in self._collections.values():
            each.cached_from = self.version

    def snapshot(self) -> StoreSnapshot:
        return StoreSnapshot(self.version, {name: dict(each.objects) for name, each in self._collections.items()})

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Returns to a snapshot, as etcd does after a restore: the counter goes back and the history is empty."""
        self.version = snapshot.version
        for name in self._collections.keys() | snapshot.objects.keys():
            self.collection(name).replace(snapshot.objects.get(name, {}), self.version)
