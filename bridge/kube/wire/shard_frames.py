"""The stream of a watch for a bridge with a shard: most lines are about objects of other shards. Pure. Hot.

kube-apiserver writes the identity of its own kinds in front of everything else. So a line of another shard is known by
its beginning, and is neither decoded nor copied.
"""

from __future__ import annotations

import re

from bridge.kube.wire.frames import Frames
from bridge.kube.wire.slow_lines import TYPES, Event
from bridge.model.object import ApiObject, object_key
from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource

# Names in printable ASCII, without escapes. [ -~] without " and \\.
_BEGINNING = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED)","object":\{"kind":"\w{1,100}","apiVersion":"[\w./-]{1,300}","metadata":\{'
    rb'"name":"([ !#-\[\]-~]{1,300})",(?:"generateName":"[ !#-\[\]-~]{1,300}",)?(?:"namespace":"([\w.-]{1,300})",)?'
    rb'"uid":"([\w-]{1,100})","resourceVersion":"([0-9]{1,20})"'
)


class ShardFrames(Frames):
    """Reads the stream of a watch. Objects of other shards may have no body; whoever takes the answers drops them."""

    def __init__(
        self, resource: Resource, shard: Shard, *, initial_events: bool = False, managed_fields: bool = True
    ) -> None:
        super().__init__(resource, initial_events=initial_events, managed_fields=managed_fields)
        self._shard = shard

    def _event(self, lines: bytes, view: memoryview, start: int, stop: int) -> Event | None:
        if (found := _BEGINNING.match(lines, start, stop)) is not None:
            kind, name, namespace, uid, version = (each.decode() if each else "" for each in found.groups())
            key = object_key(namespace, name)
            if not self._shard.contains(uid, key):
                return TYPES[kind], ApiObject(key, uid, version, b"")
        return super()._event(lines, view, start, stop)
