"""Access to the database: a writer thread, readers with short transactions, and what both ask of the log.

Every write goes through ``Store.write``, which queues a function on a connection for the writer; questions go to a
reader in a thread of its own (``ask``). Only bodies by their number are read on the event loop itself, because a thread
would take longer than the 20 µs of the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import apsw

from bridge.model.admin import UnknownTarget
from bridge.model.formats.content import entries_in, parted
from bridge.model.primitives.packing import pack
from bridge.model.record import Delta, Record, record_bytes
from bridge.model.resource import Resource
from bridge.outbox.commits import Capture
from bridge.outbox.encryption import Place
from bridge.outbox.errors import Damaged
from bridge.outbox.log import record_codec
from bridge.outbox.log.record_codec import Codec
from bridge.outbox.storage.database import close, one, open_reader, understood
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.outbox.writer import Writer
from bridge.telemetry.facts import Report

T = TypeVar("T")


class Store:
    """Connects the outbox to its file. Damage found by any reader or writer is marked on disk, so that the next start
    moves the database aside."""

    def __init__(
        self,
        state_directory: StateDirectory,
        connection: apsw.Connection,
        codec: Codec,
        *,
        min_free: int,
        report: Report,
        capture: Capture | None = None,
    ) -> None:
        self.state_directory = state_directory
        self._lookup = open_reader(state_directory.file)
        state_directory.remember_files()
        self._readers: list[apsw.Connection] = []
        self.writer = Writer(connection, state_directory, min_free=min_free, report=report, capture=capture)
        self.write = self.writer.submit
        self.codec = codec
        self.cipher = codec.bodies.cipher
        self._suspicion: Exception | None = None

    async def close(self) -> None:
        """Commits the queue, closes all connections, and releases the directory."""
        await self.writer.close()
        gone = bool(self.state_directory.gone())
        for reader in (*self._readers, self._lookup):
            close(reader, gone=gone)
        self.state_directory.release()

    async def ask(self, question: Callable[[apsw.Connection], T]) -> T:
        """Runs ``question`` in a thread, on a connection of its own. Raises Damaged, and whatever ``question``
        raises."""
        with self._noting_damage():
            return await asyncio.to_thread(self._answer, question)

    def _answer(self, question: Callable[[apsw.Connection], T]) -> T:
        # In the thread, and not around to_thread: the caller may be cancelled while the connection is still in use.
        try:
            reader = self._readers.pop()
        except IndexError:
            if gone := self.state_directory.gone():  # Another database may have the name now.
                raise Damaged(gone) from None
            reader = open_reader(self.state_directory.file)
        try:
            return question(reader)
        finally:
            self._readers.append(reader)

    def body(self, sequence: int) -> bytes:
        """The body of a record that holds an object's last state or is still in the log. Blocks for about 20 µs. Raises
        Damaged."""
        with self._noting_damage():
            found = self._parted(sequence)
            if found is None:
                raise Damaged(f"record {sequence} should hold an object's last state, and is missing")
            return found[0]

    def managers(self, sequence: int) -> bytes | None:
        """The entries of field managers that such a record was stored with; None if it was stored without. Blocks as
        ``body`` does. Raises Damaged."""
        with self._noting_damage():
            _, managers = self._parted(sequence) or (b"", None)
            try:
                return None if managers is None else entries_in(managers)
            except ValueError as error:
                raise Damaged(f"record {sequence}: {error}") from error

    def body_before(self, kind: int, delta: Delta) -> bytes | None:
        """The state before a record of the log; None if the log has it no more. Blocks as ``body`` does. Raises
        Damaged."""
        if delta.before is not None:
            return delta.before
        with self._noting_damage():
            query = "SELECT replaces FROM ledger WHERE kind = ? AND seq = ?"
            replaced = self._lookup.execute(query, (kind, delta.sequence)).get
            found = None if replaced is None else self._parted(replaced)
            return None if found is None else found[0]

    def resource_of(self, sequence: int) -> int:
        """The number of the resource that such a record names. Blocks as ``body`` does. Raises Damaged."""
        with self._noting_damage():
            number = self._lookup.execute("SELECT resource FROM log WHERE seq = ?", (sequence,)).get
            if not isinstance(number, int) or number not in self.codec.resources:
                raise Damaged(f"record {sequence} should hold an object's last state, and names no known resource")
            return number

    def _parted(self, sequence: int) -> tuple[bytes, bytes | None] | None:
        """The body of a record, and the field managers behind it; None if the record is not in the log."""
        packed = self._lookup.execute("SELECT body FROM log WHERE seq = ?", (sequence,)).get
        if packed is None:
            return None
        try:
            return parted(self.codec.bodies.unpack_whole(packed, Place.body, sequence))
        except ValueError as error:
            raise Damaged(f"record {sequence}: {error}") from error

    def has_forms(self, name: str) -> bool:
        """True if the database knows this resource in more than one version, kind or scope."""
        return sum(resource.name == name for resource in self.codec.resources.values()) > 1

    async def number_of(self, resource: Resource) -> int:
        """The resource's number in the database; assigned and durable when this returns."""
        number = await self.write(lambda database: record_codec.resource_id(database, resource))
        self.codec.resources[number] = resource
        return number

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            with understood():
                yield
        except UnknownTarget:
            raise
        except Exception as error:
            if isinstance(error, Damaged):
                self.state_directory.mark_damaged(str(error))
            self._suspicion = error
            raise

    def take_suspicion(self) -> Exception | None:
        """The error of a reader since the last call, which may come from damage. It may have gone to an operator's
        request alone, which does not end the outbox."""
        suspicion, self._suspicion = self._suspicion, None
        return suspicion


# ── Records of the log ───────────────────────────────────────────────────────


MOST_BYTES = 16 << 20
"""Unpacked bytes of a read. The record that crosses the bound is the last."""

_EMPTY = pack(b"")
# A column that CASE does not choose is not read: a body may have many pages.
_SKIPPING = record_codec.COLUMNS.removesuffix("before, body") + "".join(
    f"{comma}CASE WHEN takes & ?3 = 0 THEN {other} ELSE {column} END"
    for comma, column, other in (("", "before", "NULL"), (", ", "body", "?4"))
)

Condition: TypeAlias = tuple[str, tuple[int | str, ...]]
"""SQL about a record of the log, with its parameters."""


def condition(start: int | str, kind: int | None, namespace: str | None) -> Condition:
    """Records from ``start`` (a sequence number, or an RFC 3339 time), of a kind or namespace if given."""
    # Times are RFC 3339 in UTC with microseconds: texts of one length, whose order is the order of time.
    wheres, values = ["seq >= ?" if isinstance(start, int) else "time >= ?"], [start]
    if kind is not None:
        wheres.append("kind = ?")
        values.append(kind)
    if namespace is not None:
        wheres.append("substr(key, 1, length(?) + 1) = ? || '/'")
        values += [namespace, namespace]
    return " AND ".join(wheres), tuple(values)


def read_log(
    database: apsw.Connection, codec: Codec, after: int, limit: int, mask: int | None = None
) -> tuple[list[Record], int]:
    """At most ``limit`` records behind ``after``, and the sequence number at which the result begins, even if it is
    empty. With the ``mask`` of a sink that has a selection, records that it does not get have empty bodies, since none
    is read for them. Raises Damaged."""
    database.execute("BEGIN")  # One snapshot for both queries: a trim in between would leave a hole.
    try:
        return log_behind(database, codec, after, limit, mask)
    finally:
        database.execute("COMMIT")


def log_behind(
    database: apsw.Connection, codec: Codec, after: int, limit: int, mask: int | None = None
) -> tuple[list[Record], int]:
    """``read_log`` within the caller's transaction."""
    first = max(after + 1, one(database, "SELECT log_start FROM meta"))
    found = database.execute(
        f"SELECT {record_codec.COLUMNS if mask is None else _SKIPPING} FROM log WHERE seq >= ?1 ORDER BY seq LIMIT ?2",
        (first, limit) if mask is None else (first, limit, mask, _EMPTY),
    )
    return list(bounded((record_codec.record_of(row, codec) for row in found), record_bytes)), first


def bounded(items: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """The items up to ``MOST_BYTES``: the item that crosses the bound is the last."""
    total = 0
    for item in items:
        yield item
        total += size(item)
        if total > MOST_BYTES:
            return
