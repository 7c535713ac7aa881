"""Follows the keys under which a database has content, and moves older content to the first of them.

A key is registered before its first frame is written. A start forgets the registered keys that have no content and are
not configured any more, and fails with ``KeyMissing`` if one of the others is not configured.

``Renewal`` moves the content of older records to the first key, step by step beside the bridge: plain bodies from
before the encryption, and bodies under former keys; or to plain text, after the encryption. Otherwise an object that
never changes would keep a former key in use.
"""

from __future__ import annotations

from collections import Counter

import apsw

from bridge.outbox.encryption.cipher import MAGIC, OPTION, Cipher, KeyMissing, Place, opened, sealed
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.storage.database import one

PLAIN = ""
"""In place of a key's id: content that is not encrypted."""
_COLUMNS = (
    ("log", "body", "op <> 'gap'"),
    ("log", "before", "before IS NOT NULL"),
    ("backfill_items", "before", "before IS NOT NULL"),
    ("dictionaries", "content", "1"),
    ("dead_letters", "record", "1"),
    ("dead_letters", "sealed", "sealed IS NOT NULL"),
)
"""Columns with content of objects. A gap is about records, and has none."""


def require_keys(database: apsw.Connection, cipher: Cipher | None) -> None:
    """Registers the key of new content, and forgets keys without content that are not configured any more. Raises
    StateUnusable if a key of the content is missing: reads the whole database where a registered key is not
    configured. In the caller's transaction."""
    for name in missing_keys(database, cipher):
        raise KeyMissing(name)
    known = () if cipher is None else cipher.keys
    for (registered,) in database.execute("SELECT id FROM encryption_keys").fetchall():
        if registered not in known:
            database.execute("DELETE FROM encryption_keys WHERE id = ?", (registered,))
    if cipher is not None and cipher.encrypts:
        database.execute(
            "INSERT OR IGNORE INTO encryption_keys (id, proof) VALUES (?,?)", (cipher.first.id, cipher.first.proof)
        )
    current = cipher.first.id if cipher is not None and cipher.encrypts else None
    database.execute("UPDATE encryption_keys SET complete = 0 WHERE id IS NOT ?", (current,))


def is_complete(database: apsw.Connection) -> bool:
    """Whether all records have the key of new content."""
    return bool(one(database, "SELECT coalesce(max(complete), 0) FROM encryption_keys"))


def missing_keys(database: apsw.Connection, cipher: Cipher | None) -> list[str]:
    """The ids of keys that the database has content under, and the cipher has not. Raises StateUnusable for a key that
    only has the id of another."""
    known = {} if cipher is None else cipher.keys
    registered = dict(database.execute("SELECT id, proof FROM encryption_keys ORDER BY id"))
    for name, proof in registered.items():
        if name in known and known[name].proof != proof:
            raise StateUnusable(f"{OPTION}: a file has another key with the id {name} than the state: restore that key")
    if not (missing := [name for name in registered if name not in known]):
        return []
    used = bytes_by_key(database)
    return [name for name in missing if used[name]]


def bytes_by_key(database: apsw.Connection) -> Counter[str]:
    """Id of the key → bytes of content under it, with its registered keys that have none; ``PLAIN`` → bytes of plain
    content. Reads the whole database."""
    found: Counter[str] = Counter({name: 0 for (name,) in database.execute("SELECT id FROM encryption_keys")})
    for table, column, has_content in _COLUMNS:
        for name, size in database.execute(
            f"SELECT CASE WHEN substr({column}, 1, 4) = ?1 THEN lower(hex(substr({column}, 5, 4))) ELSE ?2 END,"
            f" sum(length({column})) FROM {table} WHERE {has_content} GROUP BY 1",
            (MAGIC, PLAIN),
        ):
            found[name] += size
    return found


# ── Older content ────────────────────────────────────────────────────────────


_RECORDS = 500
"""Records that a step looks at."""
_BYTES = 4 << 20
"""Bytes of content behind which a step ends."""


class Renewal:
    """A pass over the records through ``last``. A crash repeats it, and it finds what is left."""

    def __init__(self, cipher: Cipher | None, last: int, *, done: bool) -> None:
        self._cipher = cipher
        self._last = last
        self._reached = 0
        self._done = done or cipher is None
        self._stepping = False

    def begin_step(self) -> bool:
        """Whether a step is to be made now: there are records left, and the step before is durable."""
        begins = not (self._done or self._stepping)
        self._stepping = self._stepping or begins
        return begins

    def step(self, database: apsw.Connection) -> int:
        """Renews the content of the next records; in the writer's transaction. Returns the last of them. Raises
        Damaged."""
        cipher = self._cipher
        if cipher is None:
            raise ValueError("without a cipher, there is no step")
        seen, size, renewed, reached = 0, 0, [], self._last
        query = "SELECT seq, before, body FROM log WHERE seq > ? AND seq <= ? AND op <> 'gap' ORDER BY seq LIMIT ?"
        found = database.cursor()
        for sequence, before, body in found.execute(query, (self._reached, self._last, _RECORDS)):
            seen, size = seen + 1, size + len(body) + len(before or b"")
            if not (cipher.is_current(body) and (before is None or cipher.is_current(before))):
                renewed.append(
                    (
                        None if before is None else _renewed(cipher, Place.before(sequence), before),
                        _renewed(cipher, Place.body(sequence), body),
                        sequence,
                    )
                )
            if size > _BYTES or seen == _RECORDS:
                reached = sequence
                break
        found.close()
        database.executemany("UPDATE log SET before = ?, body = ? WHERE seq = ?", renewed)
        if reached >= self._last and cipher.encrypts:
            database.execute("UPDATE encryption_keys SET complete = 1 WHERE id = ?", (cipher.first.id,))
        return int(reached)

    def stepped(self, reached: int) -> None:
        """The step is durable."""
        self._reached, self._stepping = reached, False
        self._done = reached >= self._last


def renew_dictionaries(database: apsw.Connection, cipher: Cipher | None) -> None:
    """Moves the dictionaries, which have pieces of bodies, too. In the caller's transaction."""
    if cipher is None:
        return
    found: list[tuple[int, bytes]] = list(database.execute("SELECT number, content FROM dictionaries"))
    for number, content in found:
        if not cipher.is_current(content):
            renewed = _renewed(cipher, Place.dictionary(number), content)
            database.execute("UPDATE dictionaries SET content = ? WHERE number = ?", (renewed, number))


def _renewed(cipher: Cipher, place: Place, written: bytes) -> bytes:
    if cipher.is_current(written):
        return written
    try:
        return sealed(cipher, place, opened(cipher, place, written))
    except ValueError as error:
        row = int.from_bytes(place.row, "big")
        raise Damaged(f"{place.column.decode()} {row} cannot be read: {error}") from error
