"""Writes batches of new records: rows of log and ledger, and the informer's position, in the writer's transaction.

This is on the hot path. Before a batch is written, its records may get two additions. Where a sink has a selection,
``deciding`` adds the decision which sinks get the record. Where a sink asks for field managers, ``with_managers`` adds
those of the step from the object's former state to its new one. Then ``append`` writes the batch. ``reach`` saves the
progress of an informer, with changes or without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import NamedTuple, Protocol, TypeAlias

import apsw
import msgspec
from msgspec.structs import astuple

from bridge.model.change import Change, IgnoredChange, ObjectVersion
from bridge.model.formats.content import behind, step
from bridge.model.record import Delta, Selected
from bridge.outbox.encryption import Cipher, Place
from bridge.outbox.log import record_codec
from bridge.outbox.log.record_codec import LogRow, LogValues
from bridge.outbox.storage.database import columns, places

# ── Managers and selections of new records ───────────────────────────────────


def with_managers(
    changes: Sequence[Change], deltas: Sequence[Delta], entries_of: Callable[[int], bytes | None]
) -> list[Delta]:
    """``entries_of``: the entries of the state in a record of the log; None if it was stored without them."""
    return [*_with_managers(changes, deltas, entries_of)]


def _with_managers(
    changes: Sequence[Change], deltas: Sequence[Delta], entries_of: Callable[[int], bytes | None]
) -> Iterator[Delta]:
    here: dict[str, bytes] = {}
    for change, delta in zip(changes, deltas, strict=True):
        after, before = change.object.managers, change.before
        if not after or not change.op.has_state:
            yield delta
            continue
        known = None
        if before is not None:
            # An object that changes twice in a batch has no record of its state before yet.
            known = entries_of(before.state) if isinstance(before.state, int) else here.get(delta.key)
        here[delta.key] = after
        yield msgspec.structs.replace(delta, managers=step(known, after))


class Decide(Protocol):
    """Decides which sinks get a record. ``was``: the members before it; None if the object was not known. ``before``
    returns the state before it (None if that is not known any more), and is called only if an expression reads that
    state. Pure: neither the number of the record nor its time decides."""

    def __call__(self, delta: Delta, was: int | None, before: Callable[[], bytes | None] | None) -> Selected: ...


def deciding(decide: Decide, state: Callable[[ObjectVersion], bytes]) -> Callable[[tuple[Change, Delta]], Selected]:
    """Decides on the records of a batch, which are passed in their order."""
    # The store learns the members of a batch after the batch is durable.
    here: dict[str, int] = {}

    def selected(step: tuple[Change, Delta]) -> Selected:
        change, delta = step
        known = change.before
        was = None if known is None else here.get(delta.key, known.members)
        found = decide(delta, was, None if known is None else partial(state, known))
        if not change.op.is_copy:
            here[delta.key] = found.members
        return found

    return selected


# ── Transactions ─────────────────────────────────────────────────────────────


class LedgerRow(NamedTuple):
    """A row of the ledger. The defaults are those of a record of no object."""

    kind: int = 0
    seq: int = 0
    key: str = ""
    informer: int | None = None
    """The informer that has the object in this state; None if the record is no state."""
    uid: str = ""
    version: str = ""
    replaces: int | None = None
    """The record with the state before."""
    members: int = 0
    digest: bytes | None = None


Members: TypeAlias = tuple[int, int, int]
"""The members of an object (``Selected.members``), and the kind and number of the record with its last state."""

_UNDECIDED = (None, None, None, None)
"""In the row of a record that no selection decided about."""

Compress: TypeAlias = Callable[[bytes], bytes]


class Append(msgspec.Struct, frozen=True):
    """A batch of an informer, ready to be written."""

    kind: int
    resources: Sequence[int]
    """For each delta, the number of the resource that its record names."""
    are_states: Sequence[bool]
    """For each delta, True if the record holds the state of its object from now on. Deletes and resyncs do not."""
    replaced: Sequence[int | None]
    """For each delta, the record that held the previous state. None if there was none, or if the delta changes no
    state."""
    progress: InformerProgress | None
    """How far the informer is with this batch; None for deletes of objects that no informer covers."""
    removing: bool
    """True if deleted objects may still exist in the cluster, and come back in a later epoch."""
    digests: Sequence[bytes | None] | None = None
    """For each delta, the digest of its state; None where no changes are ignored."""
    members: Sequence[Members] = ()
    """Objects whose selections changed, while their states did not."""


ENTER = f"INSERT INTO ledger ({columns(LedgerRow)}) VALUES ({places(LedgerRow)})"
"""Adds the row of a new record, in the transaction that writes the record."""


def without_informer(
    kind: int,
    resources: Sequence[int],
    replaced: Sequence[int | None],
    *,
    removing: bool = False,
    members: Sequence[Members] = (),
) -> Append:
    """A batch of records that no informer exports, and that are no states."""
    no_states = [False] * len(resources)
    return Append(kind, resources, no_states, replaced, None, removing, members=members)


def append(
    database: apsw.Connection, deltas: Sequence[Delta], batch: Append, compress: Compress, cipher: Cipher | None = None
) -> int:
    """Writes log, ledger and position, and returns the bytes of the packed bodies. ``compress`` packs a body."""
    kind = batch.kind
    progress = batch.progress
    informer = None if progress is None else progress.informer
    digests = batch.digests or repeat(None, len(deltas))
    written = rows(deltas, batch, compress, cipher)
    database.executemany(record_codec.INSERT, written)
    database.executemany(
        ENTER,
        [
            (
                kind,
                delta.sequence,
                delta.key,
                informer if state else None,
                delta.uid,
                delta.resource_version,
                replaced,
                0 if delta.selected is None else delta.selected.members,
                digest,
            )
            for delta, state, replaced, digest in zip(deltas, batch.are_states, batch.replaced, digests, strict=True)
        ],
    )
    if batch.members:
        save_members(database, batch.members)
    if batch.removing:
        raise_epoch(database, kind, (delta.epoch for delta in deltas))
    database.execute("UPDATE meta SET last = ?", (deltas[-1].sequence,))
    if progress is None:
        _clear_positions(database, batch)
    else:
        reach(database, [progress])
    return sum(len(row[-1]) + len(row[-2] or b"") for row in written)


# Rows are written as plain tuples in the order of LogRow and LedgerRow: made with names, they cost 6 % of an append.


def rows(deltas: Sequence[Delta], batch: Append, compress: Compress, cipher: Cipher | None) -> list[LogValues]:
    """The rows of the records, with packed bodies."""
    kind = batch.kind
    packed: list[LogValues] = [
        (
            delta.sequence,
            delta.op.value,
            delta.evidence.value,
            kind,
            resource,
            delta.key,
            delta.uid,
            delta.resource_version,
            delta.time,
            delta.epoch,
            None if delta.targets is None else record_codec.encode(delta.targets).decode(),
            *(_UNDECIDED if delta.selected is None else astuple(delta.selected)),
            delta.selection,
            None if delta.before is None else compress(delta.before),
            compress(behind(delta.body, delta.managers)),
        )
        for delta, resource in zip(deltas, batch.resources, strict=True)
    ]
    return packed if cipher is None or not cipher.encrypts else [_sealed(LogRow._make(row), cipher) for row in packed]


def _sealed(row: LogRow, cipher: Cipher) -> LogRow:
    before = None if row.before is None else cipher.seal(Place.before(row.seq), row.before)
    return row._replace(before=before, body=cipher.seal(Place.body(row.seq), row.body))


def save_members(database: apsw.Connection, members: Sequence[Members]) -> None:
    """Changes the sinks whose selections contain these objects."""
    database.executemany("UPDATE ledger SET members = ? WHERE kind = ? AND seq = ?", members)


def _clear_positions(database: apsw.Connection, batch: Append) -> None:
    """Clears the positions of the informers that had these objects. The objects may still exist: an informer that gets
    its scope back must list, and not go on with its watch."""
    database.executemany(
        "UPDATE informers SET position = NULL"
        " WHERE id = (SELECT informer FROM ledger WHERE kind = ? AND seq = ?) AND position IS NOT NULL",
        [(batch.kind, replaced) for replaced in batch.replaced],
    )


# ── Informers ────────────────────────────────────────────────────────────────


class InformerProgress(msgspec.Struct, frozen=True):
    """How far an informer is, with a batch of changes or without any."""

    informer: int
    """Its number."""
    resource: int
    """The number of the resource that it follows."""
    position: str | None
    """The resourceVersion from which a watch can go on; None if only a list can."""
    newest: str | None
    """The newest resourceVersion seen in this epoch."""
    epoch: int
    ignored: IgnoredChange | None = None
    """The newest ignored change up to the position."""


def reach(database: apsw.Connection, progress: Collection[InformerProgress]) -> None:
    """Saves the progress of informers. The rebuilding of a lost database ends once every informer has listed."""
    if not progress:
        return
    database.executemany(
        "UPDATE informers SET position = ?1, newest = ?2, epoch = ?3, resource = ?4,"
        " rebuilding = rebuilding AND ?1 IS NULL, ignored = ?5 WHERE id = ?6",
        [
            (
                each.position,
                each.newest,
                each.epoch,
                each.resource,
                None if each.ignored is None else record_codec.encode(each.ignored).decode(),
                each.informer,
            )
            for each in progress
        ],
    )
    database.execute(
        "UPDATE meta SET rebuilt = 0 WHERE rebuilt AND NOT EXISTS (SELECT 1 FROM informers WHERE rebuilding)"
    )


def raise_epoch(database: apsw.Connection, kind: int, epochs: Iterable[int]) -> None:
    """Lets later informers of the kind begin in a later epoch than ``epochs``. Objects that were exported as deleted in
    these epochs may return unchanged, and their ids must not repeat."""
    database.execute("UPDATE kinds SET epoch = max(epoch, ?) WHERE id = ?", (1 + max(epochs, default=0), kind))
