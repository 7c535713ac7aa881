"""Chooses and makes the lines of a watch. ``streams`` sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from bridge.playground.http.encoding import encode
from bridge.playground.http.errors import StatusError, expired
from bridge.playground.http.options import ListOptions
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.empty import MEMBERS
from bridge.playground.objects.objects import body
from bridge.playground.objects.store import Event, Forgotten, ObjectStore, Range, StoredObject

_ADDED = b'{"type":"ADDED","object":'
_MODIFIED = b'{"type":"MODIFIED","object":'
_DELETED = b'{"type":"DELETED","object":'
_END = b"}\n"

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class Watch:
    """The progress of a client's watch through a collection. Pure: returns the lines to be sent."""

    def __init__(self, store: ObjectStore, kind: Kind, version: str, namespace: str, options: ListOptions) -> None:
        """``store`` has reached ``wanted_version``; ``version`` is the API version of the lines.

        Raises StatusError (410) for a resourceVersion that is older than the history.
        """
        self.kind = kind
        self.collection = store.collection(kind.collection)
        self.bookmarks = options.bookmarks
        self._store = store
        self._version = version
        self._namespace = namespace
        self._selection = options.selection
        asked = options.version_number()
        from_state = not asked or bool(options.initial_events)
        self._begins_after = store.version if from_state else asked
        """Changes and bookmarks up to this version are not sent. The version may lie in the future."""
        try:
            self._position = self.collection.watch_position(self._begins_after)
        except Forgotten as forgotten:
            raise expired(f"too old resource version: {asked} ({forgotten.oldest})") from None
        ahead = self.collection.since(self._position)
        self._marked = ahead[-1].version if ahead else self._begins_after
        """The version that the client knows from events; bookmarks are only sent for later versions."""
        sends_state = from_state and options.initial_events is not False
        self.opening: Iterable[bytes] = self._state() if sends_state else ()
        """The first lines, of the current state, each made when it is sent."""

    def news(self) -> list[bytes]:
        """Lines for what has changed since the last call. Raises Forgotten for a watch that fell behind."""
        events = self.collection.since(self._position)
        self._position += len(events)
        return [line for event in events if event.version > self._begins_after and (line := self._event_line(event))]

    def bookmark(self) -> bytes:
        """A bookmark for all changes until now; empty if the client knows that version."""
        if self._store.version <= self._marked:
            return b""
        return bookmark_line(self.kind, self._version, self._store.version)

    def _state(self) -> Iterator[bytes]:
        everything = Range(self.collection.keys, self.collection.objects).under(self._namespace)
        chosen = [each for each in everything if self._selection(each)]
        lines = (self._line(_ADDED, each) for each in chosen)
        if not self.bookmarks:
            return lines
        # Kubernetes 1.34 and newer send this bookmark also to a watch without sendInitialEvents and resourceVersion.
        return chain(lines, [bookmark_line(self.kind, self._version, self._begins_after, initial_events_end=True)])

    def _event_line(self, event: Event) -> bytes | None:
        # An object that enters or leaves the selection is ADDED or DELETED for this watch, whatever happened to it.
        before = event.before if event.before and self._concerns(event.before) else None
        after = event.after if event.after and self._concerns(event.after) else None
        if after:
            return self._line(_MODIFIED if before else _ADDED, after)
        # The last state, with the version of the delete, as kube-apiserver sends it.
        return self._line(_DELETED, before, event.version) if before else None

    def _concerns(self, stored: StoredObject) -> bool:
        return (not self._namespace or stored.namespace == self._namespace) and self._selection(stored)

    def _line(self, opening: bytes, stored: StoredObject, at: int | None = None) -> bytes:
        return b"".join((opening, body(self.kind, stored, self._version, at), _END))


def wanted_version(options: ListOptions) -> int:
    """The version that the server must have reached before it answers; 0 for any. A plain watch may begin in the
    future, and is silent until then. Raises StatusError (500) for a malformed version."""
    version = options.version_number()
    return version if options.initial_events else 0


def bookmark_line(kind: Kind, version: str, at: int, *, initial_events_end: bool = False) -> bytes:
    annotations = {"annotations": {INITIAL_EVENTS_END: "true"}} if initial_events_end else {}
    object_ = {
        "kind": kind.kind,
        "apiVersion": kind.api_version(version),
        "metadata": {"resourceVersion": str(at), **annotations},
    }
    text = encode(object_, sort=kind.custom)
    if members := MEMBERS.get(f"{kind.name}/{version}") or MEMBERS.get(kind.name):
        text = b"%b,%b" % (text[:-1], members[1:])
    return b'{"type":"BOOKMARK","object":%b}\n' % text


def error_line(error: StatusError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % encode(error.status())
