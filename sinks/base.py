"""The promise that every sink keeps, and all names that an author of a sink needs; other packages import them from
``kubedelta.sinks``.

A sink only sends. Waiting, retrying, counting and logging are the work of the bridge (``bridge.delivery``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from kubedelta_reader.sources import NoDestination

from bridge.model.formats.definitions import Definitions
from bridge.model.primitives.shard import Shard
from bridge.model.progress import Progress
from bridge.model.record import OrderingKey, Record, TermBegan
from bridge.model.resource import Resource
from sinks.channels import Channel
from sinks.gaps import NamesGaps
from sinks.options import EventOptions, Format, SinkOptions
from sinks.reader import CannotRead, ReadPurpose, RecordReader
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
    "BatchResult",
    "CannotRead",
    "Channel",
    "ChecksDestinations",
    "Claim",
    "EventOptions",
    "Format",
    "Lanes",
    "NamesGaps",
    "NoDestination",
    "NotLeading",
    "OrderingKey",
    "Progress",
    "ReadPurpose",
    "Receipt",
    "RecordReader",
    "RetryLater",
    "SecretFile",
    "Sink",
    "SinkContext",
    "SinkOptions",
    "SinkType",
    "SinkUnavailable",
    "Transactions",
    "WrongOption",
    "always",
    "is_blocked",
    "read_secret",
    "wrong_options",
]


def always() -> bool:
    """``may_send`` without an election."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What the bridge tells a sink that it opens. A sink uses the members that concern its destination, and ignores the
    others. The name of the cluster is an argument of the constructor instead, because ``check`` needs it, too.

    The functions may be called until ``close``, in the event loop. They are cheap and never raise.
    """

    shard: Shard | None = None
    """The part of all objects that the bridge has; None for all. Each shard has a progress of its own."""
    memory: bytes = b""
    """The newest ``Receipt.memory`` that was saved; empty before the first."""
    watched: Callable[[], Sequence[Resource] | None] = tuple
    """Returns the watched resources; None until discovery has answered."""
    may_send: Callable[[], bool] = always
    """Whether this replica leads for certain; ``always`` without an election. The bridge asks before each ``deliver``.
    A sink that begins more than one request in a ``deliver``, or waits before the first (for a connection, or for its
    turn), asks right before each request that hands records over, with no ``await`` in between: the replica may lose
    the Lease meanwhile. Where the answer is no, the sink begins no request any more, and the records that are left are
    pending, with the failure ``WITHHELD``."""
    term: TermBegan | None = None
    """The notice of the term in which this replica leads; None without an election. A destination that can reject a
    former leader has it before ``open`` returns."""
    in_doubt: int = 0
    """The newest ``SinkUnavailable.in_doubt`` of the sinks before this one, whose ``open`` failed; 0 without any. The
    Lease was confirmed since: this replica leads, whatever was found."""
    progress: Callable[[], Progress] = Progress
    """For a sink whose type has ``transactions``, in ``deliver``: returns what is reached when this batch is stored.
    ``owner``, ``number`` and ``memory`` are for the sink to fill in."""


class Sink(Protocol):
    """Delivers records to a destination.

    The bridge calls ``open`` once, then ``deliver`` for a batch at a time, in order, then ``close`` once, also after
    a failed ``open``. All three run in the event loop of the bridge and never block it. ``deliver`` raises only for
    bugs: failures of the destination or the network are in the Receipt. After a cancelled ``deliver`` any part of the
    batch may be stored.

    A sink whose type asks for ``lanes`` is called for several lanes at once, never twice at once for the same lane. A
    notice (a record that is no Delta) is the only record of its batch, and no other ``deliver`` runs beside it.

    A sink whose type has ``transactions`` gets batches with notices anywhere in them. Its destination stores a whole
    batch and ``SinkContext.progress``, or nothing.
    """

    def __init__(self, name: str, options: Any, *, cluster: str) -> None: ...

    async def open(self, context: SinkContext) -> Progress | None:
        """Connects. Raises SinkUnavailable; the bridge tries again later, with a new sink.

        Returns None; a sink with ``transactions`` returns the newest progress that the destination has, None if it has
        none. The bridge delivers nothing again that this progress covers."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """For a sink whose ``deliver`` is a transaction. That has a price of its own, so the bridge delivers less often: a
    ``deliver`` begins ``seconds`` after the one before, or as soon as ``records`` wait."""

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
    load: Callable[[], Callable[..., Sink]]
    """Imports and returns the class, or a function with the parameters of its constructor (see Sink). Import client
    libraries there, and keep ``options`` free of them: otherwise ``kubedelta --help`` has to import them."""
    max_batch: int
    """Most records that the bridge takes at once, for a ``deliver`` or for all lanes."""
    summary: str
    """A line for ``kubedelta sinks``."""
    lanes: Callable[[Any], Lanes | None] = no_lanes
    """The lanes for a sink with these options; None for a sink that takes batch after batch."""
    transactions: Callable[[Any], Transactions | None] = no_transactions
    """The transactions of a sink with these options; None for a sink that stores record by record. Not together with
    ``lanes``."""
    reader: Callable[[], Callable[..., RecordReader]] | None = None
    """Imports and returns what makes a reader of the destination, with the arguments of a RecordReader, for ``kubedelta
    verify`` and ``tail``, and for ``history build`` if it is a Source of the reader library; None if it cannot be
    read."""
    examine: Callable[[Any], Sequence[WrongOption]] = no_wrong_options
    """Checks valid options against this machine, before the bridge runs: the files that they name, for instance. Asks
    no destination; may block for some time."""
    claims: Callable[[Any], Sequence[Claim]] = no_claims
    """The destinations of a sink with these options, so that two sinks that would disturb each other are refused."""
    channels: Callable[[Any, str, Definitions], Sequence[Channel]] | None = None
    """The places to which a sink with these options sends the records of a cluster, and the schemas of its messages,
    whose definitions it adds to the given ones. None if the type does not describe its records."""
