"""Moves the content of older records to the first key, step by step beside the bridge: plain bodies from before the
encryption, and bodies under former keys; or to plain text, after the encryption. Otherwise an object that never changes
would keep a former key in use."""

from __future__ import annotations

import apsw

from bridge.outbox.encryption.cipher import Cipher, Place, opened, sealed
from bridge.outbox.errors import Damaged

_RECORDS = 500
_BYTES = 4 << 20
"""Records, and bytes of content, that a step looks at."""


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
