"""The keys under which a database has, or had, content. A key is registered before its first frame is written."""

from __future__ import annotations

from collections import Counter

import apsw

from bridge.outbox.encryption.cipher import MAGIC, OPTION, Cipher, KeyMissing
from bridge.outbox.errors import StateUnusable
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
