"""Access to the database: a writer thread, readers with short transactions, bodies by sequence number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import apsw

from bridge.model.admin import UnknownTarget
from bridge.model.formats.managers import entries_in, parted
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.outbox.checks.integrity import find_damage
from bridge.outbox.commits import Capture
from bridge.outbox.encryption.cipher import Place
from bridge.outbox.errors import Damaged
from bridge.outbox.log import ledger_sql, reading
from bridge.outbox.log.record_codec import Codec
from bridge.outbox.storage.database import close, open_reader, understood
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.outbox.writer import Writer
from bridge.telemetry.facts import Report

T = TypeVar("T")


class Store:
    """Connects the outbox to its file. Damage found by any reader or writer is marked on disk, so that the next start
    moves the database aside; see ``examine_suspicion``."""

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
        self._writer = Writer(connection, state_directory, min_free=min_free, report=report, capture=capture)
        self.write = self._writer.submit
        self.find_room = self._writer.find_room
        self.codec = codec
        self.cipher = codec.bodies.cipher
        self._suspicion: Exception | None = None

    async def close(self) -> None:
        """Commits the queue, closes all connections, and releases the directory."""
        await self._writer.close()
        gone = bool(self.state_directory.gone())
        for reader in (*self._readers, self._lookup):
            close(reader, gone=gone)
        self.state_directory.release()

    @property
    def no_room(self) -> str:
        """See Writer.no_room."""
        return self._writer.no_room

    @property
    def failure(self) -> BaseException | None:
        """See Writer.failure."""
        return self._writer.failure

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
            packed = reading.body(self._lookup, sequence)
            if packed is None:
                raise Damaged(f"record {sequence} should hold an object's last state, and is missing")
            try:
                return self.codec.bodies.unpack(packed, Place.body, sequence)
            except ValueError as error:
                raise Damaged(f"record {sequence}: {error}") from error

    def managers(self, sequence: int) -> bytes | None:
        """The entries of field managers that such a record was stored with; None if it was stored without. Blocks as
        ``body`` does. Raises Damaged."""
        with self._noting_damage():
            packed = reading.body(self._lookup, sequence)
            try:
                found = (
                    None if packed is None else parted(self.codec.bodies.unpack_whole(packed, Place.body, sequence))[1]
                )
                return None if found is None else entries_in(found)
            except ValueError as error:
                raise Damaged(f"record {sequence}: {error}") from error

    def body_before(self, kind: int, delta: Delta) -> bytes | None:
        """The state before a record of the log; None if the log has it no more. Blocks as ``body`` does. Raises
        Damaged."""
        if delta.before is not None:
            return delta.before
        with self._noting_damage():
            found = reading.body_before(self._lookup, kind, delta.sequence)
            if found is None:
                return None
            packed, replaced = found
            try:
                return self.codec.bodies.unpack(packed, Place.body, replaced)
            except ValueError as error:
                raise Damaged(f"the record before {delta.sequence}: {error}") from error

    def resource_of(self, sequence: int) -> int:
        """The number of the resource that such a record names. Blocks as ``body`` does. Raises Damaged."""
        with self._noting_damage():
            number = reading.resource(self._lookup, sequence)
            if number not in self.codec.resources:
                raise Damaged(f"record {sequence} should hold an object's last state, and names no known resource")
            return number

    def has_forms(self, name: str) -> bool:
        """True if the database knows this resource in more than one version, kind or scope."""
        return sum(resource.name == name for resource in self.codec.resources.values()) > 1

    async def number_of(self, resource: Resource) -> int:
        """The resource's number in the database; assigned and durable when this returns."""
        number = await self.write(lambda database: ledger_sql.resource_id(database, resource))
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

    def _find_damage(self) -> str:
        return find_damage(self.state_directory.file, self.cipher)

    async def examine_suspicion(self) -> None:
        """Examines the database after an error of a reader. Needed because the error may have gone to an operator's
        request, which does not end the outbox. Raises Damaged; a bug stays with its caller."""
        suspicion, self._suspicion = self._suspicion, None
        if isinstance(suspicion, Damaged):
            raise suspicion
        if suspicion is not None and (damage := await asyncio.to_thread(self._find_damage)):
            raise Damaged(damage) from suspicion
