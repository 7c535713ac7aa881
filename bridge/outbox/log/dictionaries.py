"""Compression dictionaries in the database."""

from __future__ import annotations

import apsw

from bridge.outbox.log.body_codec import Dictionary


def load(database: apsw.Connection) -> list[Dictionary]:
    """All dictionaries of the database."""
    return [Dictionary(*found) for found in database.execute("SELECT number, kind, content FROM dictionaries")]


def add(database: apsw.Connection, dictionary: Dictionary) -> None:
    """Saves a new dictionary. Its number is unique to its kind."""
    database.execute(
        "INSERT INTO dictionaries (number, kind, content) VALUES (?,?,?)",
        (dictionary.number, dictionary.kind, dictionary.content),
    )
