"""The promise that every sink keeps, and all names that an author of a sink needs.

A sink only sends. Waiting, retrying, counting and logging are the work of the bridge (``bridge.delivery``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bridge.model.formats.definitions import Definitions
from bridge.model.primitives.election import TermBegan
from bridge.model.primitives.shard import Shard
from bridge.model.record import OrderingKey, Record
from bridge.model.resource import Resource
from bridge.model.versions.progress import Progress
from sinks.channels import Channel
from sinks.gaps import NamesGaps
from sinks.options import EventOptions, Format, SinkOptions
from sinks.reader import CannotRead, NoDestination, ReadPurpose, RecordReader
from sinks.receipt import (
    ALL_STORED,
    WITHHELD,
    BatchResult,
    NotLeading,
    Receipt,
    RetryLater,
    SinkUnavailable,
    WrongOption,
    is_blocked,
    wrong_options,
)
from sinks.secret_files import SecretFile, read_secret

__all__ = [
    "ALL_STORED",
    "WITHHELD",
    "AsksToSend",
    "BatchResult",
    "CannotRead",
    "Channel",
    "ChecksDestinations",
    "Claim",
    "EventOptions",
    "FencingSink",
    "Format",
    "Lanes",
    "NamesGaps",
    "NoDestination",
    "NotLeading",
    "OrderingKey",
    "ProgressSink",
    "ReadPurpose",
    "Receipt",
    "RecordReader",
    "RetryLater",
    "SecretFile",
    "Sink",
    "SinkOptions",
    "SinkType",
    "SinkUnavailable",
    "StatefulSink",
    "Transactions",
    "WrongOption",
    "always",
    "is_blocked",
    "read_secret",
    "wrong_options",
]


class Sink(Protocol):
    """Delivers records to a destination.

    The bridge calls ``open`` once, then ``deliver`` for a batch at a time, in order, then ``close`` once, also after
    a failed ``open``. All three run in the event loop of the bridge and never block it. ``deliver`` raises only for
    bugs: failures of the destination or the network are in the Receipt. After a cancelled ``deliver`` any part of the
    batch may be stored.

    A sink whose type asks for ``lanes`` is called for several lanes at once, never twice at once for the same lane. A
    notice (a record that is no Delta) is the only record of its batch, and no other ``deliver`` runs beside it.
    """

    def __init__(self, name: str, options: Any, *, cluster: str) -> None: ...

    async def open(self) -> None:
        """Connects. Raises SinkUnavailable; the bridge tries again later, with a new sink."""
        ...

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """Sends a batch (at least one record, at most ``max_batch``) and waits until the destination has answered."""
        ...

    async def check(self) -> str:
        """For ``kubedelta check``, on a sink that is not open: reaches the destination and returns a few words about
        it. Sends no record. Raises SinkUnavailable."""
        ...

    async def close(self) -> None:
        """Releases everything that ``open`` acquired, within a few seconds."""
        ...


@runtime_checkable
class ChecksDestinations(Protocol):
    """A sink that finds missing topics (or the like) before a record needs them."""

    async def check_destinations(self, resources: Sequence[Resource]) -> Sequence[str]:
        """For ``kubedelta check``, on a sink that is not open: a sentence for each destination of records of these
        resources that is missing and that neither sink nor server creates. Raises SinkUnavailable."""
        ...


@runtime_checkable
class StatefulSink(Protocol):
    """A sink with state that survives a restart. The bridge sets both attributes before ``open``."""

    memory: bytes
    """The saved state; empty at first. When all records that were handed to the sink are stored (or dead letters), the
    bridge saves this value in the same transaction as the cursor. Records handed over later come again after a crash.
    A few kilobytes at most, and the same object until the value changes."""
    watched: Callable[[], Sequence[Resource] | None]
    """Returns the watched resources; None until discovery has answered."""


@runtime_checkable
class AsksToSend(Protocol):
    """A sink that begins more than one request in a ``deliver``, or waits before the first: for a connection, or for
    its turn. A replica may lose the Lease meanwhile."""

    may_send: Callable[[], bool]
    """Set by the bridge before ``open``, with an election; until then ``always``. Asked right before each request that
    hands records over, with no ``await`` in between. Where the answer is no, the sink begins no request any more, and
    the records that are left are pending, with the failure ``WITHHELD``. Cheap."""


@runtime_checkable
class FencingSink(Protocol):
    """A sink whose destination rejects a former leader once ``open`` has announced the next one."""

    term: TermBegan | None
    """Set by the bridge before ``open``; None without an election."""
    in_doubt: int
    """The number of the last message of a stream that may be a later leader's. The sink that the bridge makes next has
    it, too. The Lease is confirmed before the next attempt: then its leader counts, whatever that message is."""


@runtime_checkable
class ProgressSink(Protocol):
    """A sink whose ``deliver`` is a transaction: the destination stores the whole batch and the progress, or nothing.
    Notices stand anywhere in its batches. Its type has ``transactions``."""

    shard: Shard | None
    """Set by the bridge before ``open``: the part of all objects that the bridge has; None for all. Each shard has a
    progress of its own."""
    progress: Progress
    """Set by the bridge before ``open``, with the term, and before each ``deliver``: what is reached when that batch is
    stored. ``owner``, ``number`` and ``memory`` are for the sink to fill in."""
    doubted: bool
    """``open`` has found a leader of a later term, and failed. The sink that the bridge makes next has it, too: the
    Lease is confirmed then, and its leader counts, whatever its term."""
    committed: Progress | None
    """After ``open``: the newest progress that the destination has; None if it has none. The bridge delivers nothing
    again that it covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """For a ProgressSink. A transaction has a price of its own, so the bridge delivers less often: a ``deliver`` begins
    ``seconds`` after the one before, or as soon as ``records`` wait."""

    records: int
    """Most records of a transaction."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """For a sink that sends record by record and would wait for each answer in turn. The bridge calls ``deliver`` for
    several lanes at once; all records of an object are in the same lane. A lane that fails is retried alone, after a
    back-off, while others go on."""

    concurrency: int
    """Most calls of ``deliver`` at once."""
    batch: int = 1
    """Most records per call. With 1, each object has a lane of its own. Above 1, all objects share ``concurrency``
    lanes, so that batches fill up."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A destination that another sink of the same configuration may claim too."""

    destination: str
    """Equal for two sinks that write to the same destination."""
    description: str
    """The destination in words, for the operator."""
    exclusive: bool
    """No other sink may write to it."""


def always() -> bool:
    """``may_send`` without an election."""
    return True


def no_lanes(_options: SinkOptions) -> None:
    """The default of ``SinkType.lanes``: the sink takes batches."""


def no_transactions(_options: SinkOptions) -> None:
    """The default of ``SinkType.transactions``: a record is stored by itself."""


def no_wrong_options(_options: SinkOptions) -> Sequence[WrongOption]:
    """The default of ``SinkType.examine``: the options name no files."""
    return ()


def no_claims(_options: SinkOptions) -> Sequence[Claim]:
    """The default of ``SinkType.claims``: several sinks may share the destination."""
    return ()


@dataclass(frozen=True, slots=True)
class SinkType:
    """A type of sink, for the registry. Other packages offer theirs as entry points in ``kubedelta.sinks``."""

    name: str
    options: type[SinkOptions]
    load: Callable[[], type[Sink]]
    """Imports and returns the class. Import client libraries there, and keep ``options`` free of them: otherwise
    ``kubedelta --help`` has to import them."""
    max_batch: int
    """Most records that the bridge takes at once, for a ``deliver`` or for all lanes."""
    summary: str
    """A line for ``kubedelta sinks``."""
    lanes: Callable[[Any], Lanes | None] = no_lanes
    """The lanes for a sink with these options; None for a sink that takes batch after batch."""
    transactions: Callable[[Any], Transactions | None] = no_transactions
    """For a sink with these options that is a ProgressSink; None for others. Not together with ``lanes``."""
    load_for: Callable[[Any], type[Sink]] | None = None
    """Like ``load``, for a type whose class depends on the options; None if all sinks have the class of ``load``."""
    reader: Callable[[], type[RecordReader]] | None = None
    """Imports and returns the reader of the destination, for ``kubedelta verify`` and ``kubedelta tail``; None if it
    cannot be read."""
    examine: Callable[[Any], Sequence[WrongOption]] = no_wrong_options
    """Checks valid options against this machine, before the bridge runs: the files that they name, for instance. Asks
    no destination; may block for some time."""
    claims: Callable[[Any], Sequence[Claim]] = no_claims
    """The destinations of a sink with these options, so that two sinks that would disturb each other are refused."""
    channels: Callable[[Any, str, Definitions], Sequence[Channel]] | None = None
    """The places to which a sink with these options sends the records of a cluster, and the schemas of its messages,
    whose definitions it adds to the given ones. None if the type does not describe its records."""
