"""SQL of dead letters that come from another replica.

A dead letter is known by the id of its record: one that is here already, since this replica delivered the record itself
or fetched it before, is not added again. The dead letters of an object are delivered by their numbers, so they come in
the order of the object's versions: those that were parked here behind the ones of the other replica get later numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import apsw

from bridge.model.dead_letter import LONGEST_TEXT, LetterPage, NewDeadLetter, SentLetter
from bridge.model.record import Delta, OrderingKey
from bridge.model.versions.leading import in_term
from bridge.model.versions.version import is_older
from bridge.outbox.encryption.cipher import Cipher
from bridge.outbox.letters import dead_letters_sql
from bridge.outbox.log import record_codec
from bridge.outbox.storage.database import one

_VERSION = re.compile(r"/(\d+)/[a-z]+(?:/snapshot)?(?:/\d+)?$", re.ASCII)
"""In ``Delta.id``."""
_PAGE = 4 << 20
"""Bytes, beyond which a page ends."""


class Taken(NamedTuple):
    """What memory follows."""

    moved: Sequence[tuple[int, int]]
    """Numbers before and after."""
    added: Sequence[tuple[int, NewDeadLetter]]


class _Row(NamedTuple):
    number: int
    record_id: str
    retrying: int

    @property
    def version(self) -> str:
        """Of the object; empty for notices, and for a version without an order."""
        found = _VERSION.search(self.record_id)
        return "" if found is None else found[1]


def page(
    database: apsw.Connection, replica: str, after: int, most: int, ahead: int, cipher: Cipher | None
) -> LetterPage:
    """At most ``most`` dead letters with larger numbers than ``after``. ``ahead``: see ``leading.in_term``."""
    letters: list[SentLetter] = []
    size = 0
    for number, parked, retrying, letter in dead_letters_sql.behind(database, after, most):
        record = in_term(record_codec.decode_record(letter.content(cipher)), 0, ahead)
        content = record_codec.encode_record(record)
        reason, answer = (each[:LONGEST_TEXT] for each in letter.texts(cipher))
        letters.append(SentLetter(number, letter.sink, content, reason, parked, answer, retrying))
        size += len(content)
        if size > _PAGE:
            break
    return LetterPage(replica, one(database, "SELECT count(*) FROM dead_letters"), tuple(letters))


def take(database: apsw.Connection, sink: str, letters: Sequence[NewDeadLetter], cipher: Cipher | None) -> Taken:
    """Adds the dead letters of a sink, of each object in this order, behind older ones."""
    moved: list[tuple[int, int]] = []
    added: list[tuple[int, NewDeadLetter]] = []
    by_object = sorted(letters, key=lambda each: each.record.ordering_key)  # Stable.
    for key, of_object in groupby(by_object, key=lambda each: each.record.ordering_key):
        there = _rows(database, sink, key)
        for step in _merged(there, _unknown(database, sink, of_object, cipher)):
            if isinstance(step, _Row):
                moved.append((step.number, _renumbered(database, step.number)))
                continue
            [number], _ = dead_letters_sql.insert(database, [dead_letters_sql.row_of(sink, step)], cipher, {key})
            if number is not None:
                added.append((number, step))
    return Taken(moved, added)


def _rows(database: apsw.Connection, sink: str, key: OrderingKey) -> Sequence[_Row]:
    found = database.execute(
        "SELECT number, record_id, retrying FROM dead_letters WHERE sink = ? AND resource_name = ? AND key = ?"
        " ORDER BY number",
        (sink, *key),
    )
    return [_Row(*columns) for columns in found]


def _unknown(
    database: apsw.Connection, sink: str, letters: Iterator[NewDeadLetter], cipher: Cipher | None
) -> Sequence[NewDeadLetter]:
    def is_new(letter: NewDeadLetter) -> bool:
        record = letter.record
        return not dead_letters_sql.has(database, sink, record.id, record.unique_id, cipher)

    return list(filter(is_new, {each.record.unique_id: each for each in letters}.values()))


def _merged(there: Sequence[_Row], new: Sequence[NewDeadLetter]) -> Iterator[_Row | NewDeadLetter]:
    """What is to be written at the end, in order. Nothing moves while some are being retried: a number must stay what
    it is until the destination has the record."""
    if not new or any(each.retrying for each in there):
        yield from new
        return
    waiting = list(reversed(new))
    for row in there:
        while waiting and not _is_behind(waiting[-1], row):
            yield waiting.pop()
        if len(waiting) < len(new):
            yield row
    yield from reversed(waiting)


def _is_behind(letter: NewDeadLetter, row: _Row) -> bool:
    return isinstance(letter.record, Delta) and is_older(row.version, letter.record.resource_version)


def _renumbered(database: apsw.Connection, number: int) -> int:
    later = 1 + one(database, "SELECT seq FROM sqlite_sequence WHERE name = 'dead_letters'")
    database.execute("UPDATE dead_letters SET number = ? WHERE number = ?", (later, number))
    database.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'dead_letters'", (later,))
    return later
