"""Compression dictionaries in the database."""

from __future__ import annotations

import apsw

from bridge.outbox.encryption.cipher import Cipher, Place, opened, sealed
from bridge.outbox.log.body_codec import Dictionary


def load(database: apsw.Connection, cipher: Cipher | None) -> list[Dictionary]:
    """All dictionaries of the database. Raises ValueError for damaged content, and KeyMissing."""
    return [
        Dictionary(number, kind, opened(cipher, Place.dictionary(number), content))
        for number, kind, content in database.execute("SELECT number, kind, content FROM dictionaries")
    ]


def add(database: apsw.Connection, dictionary: Dictionary, cipher: Cipher | None) -> None:
    """Saves a new dictionary. Its number is unique to its kind."""
    database.execute(
        "INSERT INTO dictionaries (number, kind, content) VALUES (?,?,?)",
        (dictionary.number, dictionary.kind, sealed(cipher, Place.dictionary(dictionary.number), dictionary.content)),
    )
