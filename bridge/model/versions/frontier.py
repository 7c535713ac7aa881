"""The frontier: how far each sink has settled the changes of each informer, in numbers that all replicas share.

Sequence numbers belong to an outbox. A resourceVersion is the same for every replica, and comparable within a resource
(KEP-5504). The leader publishes its frontier in an annotation of the Lease; the next leader goes on behind it.
"""

from __future__ import annotations

import zlib
from base64 import b32encode, b64decode, b64encode
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bridge.model.primitives.shard import MOST_SHARDS, Shard
from bridge.model.resource import Scope
from bridge.model.versions.held import DIGEST, MOST_HELD, KeptLetters, digests_in
from bridge.model.versions.selection_frontier import SelectionFrontier
from bridge.model.versions.version import is_reached

T = TypeVar("T")

MOST_CHARACTERS = 200_000
"""Of an encoded frontier. All annotations of an object have at most 256 KiB (apimachinery, ValidateAnnotations)."""
MOST_RETIRED = 100
MOST_KEPT = 256
MOST_SCOPE = 2048
"""Characters."""
_PLAIN = 32 << 10
"""Bytes. A longer text is compressed."""
_INFLATED = 2 << 20
"""Bytes. Most that a compressed text may hold."""

_Key = Annotated[str, Meta(min_length=1, max_length=32)]
_Name = Annotated[str, Meta(max_length=512)]
_Digest = Annotated[str, Meta(max_length=64)]
_Count = Annotated[int, Meta(ge=0, le=1 << 62)]


class Point(NamedTuple):
    """All changes of an informer up to this resourceVersion, in an epoch of the informer."""

    epoch: Annotated[int, Meta(ge=1, le=1 << 31)]
    version: Annotated[str, Meta(max_length=256)]

    def covers(self, other: Point) -> bool:
        """Whether it is the same or a later point of the same epoch. Versions without an order cover only themselves;
        points of two epochs cannot be compared."""
        if self.epoch != other.epoch:
            return False
        return self.version == other.version or is_reached(other.version, self.version)


class SinkFrontier(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sink has settled beside ``Frontier.informers``."""

    behind: Annotated[dict[_Key, Point | None], Meta(max_length=10_000)] = {}
    """Informers of which the sink has settled less than ``Frontier.informers`` says; None: nothing."""
    backfill: Annotated[str, Meta(max_length=16)] = ""
    """Records that no point describes are under way: ``snapshot`` or ``replay``."""
    scope: Annotated[str, Meta(max_length=MOST_SCOPE)] = ""
    """Of a snapshot on demand: its SnapshotScope as JSON. Empty for the snapshot with which a sink begins."""
    paused: Annotated[int, Meta(ge=0, le=9)] = 0
    """A PauseCause."""
    dead_letters: _Count = 0
    """Their bodies are on the disk of ``Frontier.by``."""
    parked: Annotated[bytes, Meta(max_length=MOST_HELD * DIGEST)] = msgspec.field(default=b"", name="held")
    """Digests of the objects that have a dead letter, whose later records wait: see ``HeldObjects.packed``. All of
    them, or none where there is no room, and by an earlier version, which has a list of names in ``parked``."""
    objects: _Count = 0
    """The number of objects that have a dead letter."""
    selection: SelectionFrontier = SelectionFrontier()

    @property
    def names_all_parked(self) -> bool:
        return self.objects <= len(digests_in(self.parked))


class ShardFrontier(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the sinks have settled of the objects of a former shard, beyond ``Frontier.informers``."""

    shard: Shard
    informers: Annotated[dict[_Key, Point | None], Meta(max_length=10_000)] = {}
    behind: Annotated[dict[_Name, dict[_Key, Point | None]], Meta(max_length=1000)] = {}
    """By sink: see ``SinkFrontier.behind``."""

    def of(self, sink: str, informer: str) -> Point | None:
        """What this sink has settled of this informer; None if nothing is known."""
        behind = self.behind.get(sink)
        if behind is None:
            return None
        return behind[informer] if informer in behind else self.informers.get(informer)


class Frontier(msgspec.Struct, frozen=True, omit_defaults=True):
    """The progress of the leader. Sinks without an entry are not known to the leader."""

    v: Literal[1]
    cluster: _Name
    term: _Count
    by: _Name
    """The identity of the leader."""
    version: _Name
    """The leader's version of kubedelta."""
    sequence: Annotated[int, Meta(ge=0, le=1 << 53)]
    """No record has left with a larger number yet. Numbers begin at the microseconds since 1970: no leader comes so far
    before the year 2255."""
    replays: Annotated[int, Meta(ge=0, le=1 << 53)] = 0
    """The number of the newest replay or snapshot on demand. Those of a rebuilt state begin at the number of a
    record."""
    renewal: _Count = 0
    """Each publication of a term has a larger one than that before; 0 by an earlier version."""
    informers: Annotated[dict[_Key, Point | None], Meta(max_length=10_000)] = {}
    """Running informers, each with the changes that a sink has settled unless its own entry says less; None: none."""
    retired: Annotated[tuple[_Key, ...], Meta(max_length=MOST_RETIRED)] = ()
    """Informers that left the configuration (``retired_key``), of which every sink has settled all; newest last."""
    sinks: Annotated[dict[_Name, SinkFrontier], Meta(max_length=1000)] = {}
    kept: Annotated[dict[_Name, KeptLetters], Meta(max_length=MOST_KEPT)] = {}
    """Names of replicas that have led, and have dead letters which the leader has not. The newest are the last."""
    followed: Annotated[tuple[_Name, ...], Meta(max_length=MOST_KEPT)] = ()
    """Names of replicas that have led: whatever object had dead letters then, as they published, every leader since has
    held its later records back. The newest are the last."""
    address: _Name = ""
    """The URL from which replicas get a copy of the leader's state; empty for none. See bridge.replicas.sources."""
    settings: Annotated[dict[_Name, _Digest], Meta(max_length=2000)] = {}
    """Section of the configuration → a digest of what must be equal on all replicas."""
    start: Annotated[str, Meta(max_length=64)] = ""
    """The start of the leader that published it: see ``outbox.progress.starts``."""
    final: bool = False
    """Published behind the last delivery of its leader."""
    restored: bool = False
    """A restore of the API server's store undid what leaders delivered, and nobody knows what."""
    bounds: Annotated[dict[_Key, Point | None], Meta(max_length=10_000)] = {}
    """Informers of which a former leader may have delivered more, each with a point that it cannot have passed; None:
    not known yet."""
    parts: Annotated[tuple[ShardFrontier, ...], Meta(max_length=MOST_SHARDS)] = ()
    """Shards that were joined, until the sinks have settled as much of all others; empty for most frontiers."""

    def of(self, sink: str, informer: str) -> Point | None:
        """What this sink has settled of this informer; None if nothing is known."""
        found = self.sinks.get(sink)
        if found is None:
            return None
        return found.behind[informer] if informer in found.behind else self.informers.get(informer)


def informer_key(resource: str, scope: Scope) -> str:
    """A short name of an informer, the same on every replica. ``resource``: without a version, in kubectl's form."""
    identity = [resource, scope.namespace, scope.label_selector, scope.field_selector]
    return b32encode(sha256(msgspec.json.encode(identity)).digest()[:8]).decode().rstrip("=").lower()


def retired_key(informer: str, epoch: int) -> str:
    """The name of an informer that left in this epoch. If it comes back, it begins a later epoch."""
    return f"{informer}/{epoch}"


def later(one: Point | None, other: Point | None, epoch: int = 0) -> Point | None:
    """The later of two points of an epoch; ``one`` where they cannot be compared. Those of epochs up to ``epoch`` can:
    the informer here has begun them, too."""
    if one is None or other is None:
        return other if one is None else one
    return other if other.covers(one) or one.epoch < other.epoch <= epoch else one


def furthest(points: Iterable[Point | None]) -> Point | None:
    """The latest of the points of an epoch; of points that cannot be compared, the first."""
    found: Point | None = None
    for point in points:
        found = later(found, point)
    return found


def without_points(found: Frontier) -> Frontier:
    """``found``, which says of no change that a sink has settled it: behind it nobody is exact."""
    sinks = {sink: replace(each, behind={}) for sink, each in found.sinks.items()}
    return replace(found, informers=dict.fromkeys(found.informers), retired=(), sinks=sinks, bounds={}, parts=())


# ── In an annotation ─────────────────────────────────────────────────────────

_decode = msgspec.json.Decoder(Frontier).decode


def encode(frontier: Frontier) -> str:
    """The text of the annotation: JSON; a long one compressed (zlib, base64). Raises ValueError if it is too long."""
    text = _text(frontier)
    if len(text) > MOST_CHARACTERS:
        raise ValueError(
            f"the frontier of {len(frontier.informers)} informers and {len(frontier.sinks)} sinks takes {len(text)}"
            f" characters, and an annotation holds {MOST_CHARACTERS}: watch fewer namespaces or resources in one bridge"
        )
    return text


def fitted(frontier: Frontier) -> tuple[str, int]:
    """The text of the annotation, and the characters that the whole frontier takes. If an annotation holds fewer, the
    text has no positions of sinks: behind it nobody is exact, and all records are delivered again that are still in the
    log. If need be, it has neither parked objects nor settings. The term and the numbers are always there."""
    for each in (frontier, replace(frontier, final=False, bounds={})):  # The next leader finds bounds itself.
        if len(whole := _text(each)) <= MOST_CHARACTERS:
            return whole, len(whole)
    text = _text(less := without_points(frontier))
    if len(text) > MOST_CHARACTERS:
        sinks = {sink: replace(each, parked=b"") for sink, each in less.sinks.items()}
        text = _text(replace(less, sinks=sinks, settings={}))
    return text, len(whole)


def _text(frontier: Frontier) -> str:
    plain = msgspec.json.encode(frontier)
    return plain.decode() if len(plain) <= _PLAIN else b64encode(zlib.compress(plain)).decode()


def encode_found(frontier: Frontier) -> str:
    """The same for a frontier that was read; without bounds if they leave no room, empty if somebody else has written
    it in a shorter form."""
    for each in (frontier, replace(frontier, bounds={})):
        with suppress(ValueError):
            return encode(each)
    return ""


def decode(text: str) -> Frontier:
    """The frontier in an annotation, which anybody may have written. Raises ValueError."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the frontier has {len(text)} characters, and may have {MOST_CHARACTERS}")
    plain = text.encode() if text.startswith("{") else _understood(_inflated, text)
    return _understood(_decode, plain)


def _inflated(text: str) -> bytes:
    inflater = zlib.decompressobj()
    plain = inflater.decompress(b64decode(text, validate=True), _INFLATED)
    if not inflater.eof:
        raise ValueError(f"it is cut off, or has more than {_INFLATED} bytes")
    return plain


def _understood(read: Callable[..., T], value: str | bytes) -> T:
    try:
        return read(value)
    except (ValueError, RecursionError, zlib.error) as error:  # msgspec's errors are ValueErrors.
        raise ValueError(f"the frontier cannot be read: {error}") from error
