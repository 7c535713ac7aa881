"""Encryption of objects' content at rest: the operator's keys, the frames, and the registry of keys in the database.

A ``Cipher`` seals content on its way into the database and opens it on its way out: bodies, states before a change,
dictionaries, and dead letters. Content is encrypted above SQLite, frame by frame and after compression; names stay
readable. So ``kubedelta cursors``, comparisons with the ledger and trimming need no key, a rotation rewrites no file,
and without keys nothing is slower. An encrypting VFS (SQLCipher, SEE) would hide names too, but needs another build of
SQLite than apsw's with its checksums, and rewrites the file for each rotation. An encrypted disk (LUKS, a cloud's
volumes) hides everything, and stays the first advice: this module is for copies, snapshots, and nodes that others
administer.

A frame is AES-256-GCM: a magic number, the id of the key, a salt, the number of the message, the ciphertext, and its
tag. The id of a key is a digest of the key, as in redaction: a file cannot be given the name of another key, and a
wrong key is a missing key, which is an error of the configuration and never damage. The key of a frame is derived
(HKDF-SHA256) from the operator's key and the salt, which is random in each opened state; the number of the message is
the nonce. So a nonce never repeats under a key, however many messages there are. A frame is bound to its place in the
database (``Place``): it can be read nowhere else. A dead letter (``Letter``) has two frames, since its answer changes
while its record stays.

Random nonces of 96 bits allow 2^32 messages under a key (NIST SP 800-38D): at 5,000 events a second these are gone
after ten days, and nobody rotates that often. With numbers under derived keys no nonce comes twice before 2^64
messages, and salts of two starts are equal with a chance of 2^-64 after 2^32 starts. AES-GCM-SIV would forgive a
repeated nonce, but not every OpenSSL has that. The price: 24 bytes a frame for salt and number; and a process that is
cloned while it runs (a snapshot of a virtual machine's memory, continued twice) uses numbers twice: restart the bridge
after such a restore.

The database has a registry of the keys that it has content under. A key is registered before its first frame is
written. A start forgets the registered keys that have no content and are not configured any more, and fails with
``KeyMissing``, before any body is read, if one of the others is not configured. ``Renewal`` moves the content of older
records to the first key, step by step beside the bridge: plain bodies from before the encryption, and bodies under
former keys; or to plain text, after the encryption. Otherwise an object that never changes would keep a former key in
use.
"""

from __future__ import annotations

import hmac
import os
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from bridge.outbox.errors import Damaged, StateUnusable
from bridge.outbox.storage.database import one

OPTION = "state.encryption.key_files"


# ── Keys ─────────────────────────────────────────────────────────────────────


SHORTEST = 32
"""Bytes. AES-256 has keys of 32 bytes; a longer file is condensed."""


class EncryptionKey:
    """A master key. It encrypts no content itself: each opened state derives a key of its own. ``repr`` never shows the
    key."""

    __slots__ = ("id", "master", "proof")

    def __init__(self, content: bytes) -> None:
        """Raises ValueError for less than ``SHORTEST`` bytes."""
        if len(content) < SHORTEST:
            raise ValueError(f"a key of at least {SHORTEST} bytes is expected, found {len(content)}")
        digest = hmac.digest(content, b"kubedelta encryption key", "sha256")
        self.master = hmac.digest(content, b"kubedelta encryption master", "sha256")
        self.id = digest[:4].hex()
        """The name of the key, in every frame. A digest, so it makes guesses of the key no cheaper."""
        self.proof = digest[4:]
        """Tells keys of equal ids apart."""


class KeyMissing(StateUnusable):
    """Content is encrypted under a key that is not configured."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"{OPTION}: no file has the key {key}, with which content of the state is encrypted: name its file, behind "
            "the key for new content"
        )


# ── Frames ───────────────────────────────────────────────────────────────────

MAGIC: Final = b"\xf3kd1"
_ID = slice(4, 8)
_SALT = slice(8, 24)
_NUMBER = slice(24, 32)
_SEALED = slice(32, None)
HEAD: Final = 8
"""Bytes of a frame that name its key, with the magic number."""
_NONCE_PREFIX = bytes(4)
_TAG = 16
_INFO = b"kubedelta state 1"
_MOST_DERIVED = 256
"""Keys of frames that are kept: one for each start of a bridge that wrote content which is still there."""


class Place(NamedTuple):
    """Where a frame stands. Rows keep their place as long as they exist."""

    column: bytes
    row: bytes

    @classmethod
    def body(cls, sequence: int) -> Place:
        return cls(b"body", sequence.to_bytes(8, "big"))

    @classmethod
    def before(cls, sequence: int) -> Place:
        """``sequence``: of the record, also where an item of a backfill has a copy."""
        return cls(b"before", sequence.to_bytes(8, "big"))

    @classmethod
    def dictionary(cls, number: int) -> Place:
        return cls(b"dictionary", number.to_bytes(8, "big"))

    @classmethod
    def dead_letter(cls, column: bytes, sink: str, sequence: int, record_id: str) -> Place:
        """``column``: the record, or the answer."""
        return cls(column, b"%d %d %s%s" % (sequence, len(sink), sink.encode(), record_id.encode()))


class Cipher:
    """Encrypts under the first key, and decrypts under all. Thread-safe."""

    def __init__(self, keys: Sequence[EncryptionKey], *, encrypts: bool = True) -> None:
        """``encrypts``: False writes new content in plain text. Raises ValueError for no key or equal ids, and
        StateUnusable without the library."""
        if not keys or len({each.id for each in keys}) < len(keys):
            raise ValueError("keys with different ids are expected")
        self._aead = _library()
        self.keys = {each.id: each for each in keys}
        self.first = keys[0]
        self.encrypts = encrypts
        self._derived: dict[bytes, Any] = {}
        self._lock = Lock()
        salt = os.urandom(16)
        self._head = MAGIC + bytes.fromhex(self.first.id) + salt
        self._own = self._key_of(self._head)
        self._numbers = count()

    def seal(self, place: Place, content: bytes) -> bytes:
        """The frame of the content, for this place."""
        number = next(self._numbers).to_bytes(8, "big")
        return self._head + number + self._own.encrypt(_NONCE_PREFIX + number, content, b"\0".join(place))  # type: ignore[no-any-return]

    def open(self, place: Place, frame: bytes) -> bytes:
        """The content of a frame. Raises ValueError for a frame that was changed or stands in another place, and
        KeyMissing."""
        if len(frame) < _SEALED.start + _TAG:
            raise ValueError("an encrypted frame is cut off")
        try:
            return self._key_of(frame).decrypt(_NONCE_PREFIX + frame[_NUMBER], frame[_SEALED], b"\0".join(place))  # type: ignore[no-any-return]
        except _invalid_tag() as error:
            raise ValueError(f"an encrypted frame of the key {key_id(frame)} was changed, or moved here") from error

    def is_current(self, frame: bytes) -> bool:
        """Whether the frame is as new content is: of the first key, or plain."""
        return frame.startswith(self._head[:HEAD]) if self.encrypts else not is_sealed(frame)

    def _key_of(self, frame: bytes) -> Any:
        name = frame[_ID.start : _SALT.stop]
        derived = self._derived.get(name)
        if derived is None:
            key = self.keys.get(key_id(frame))
            if key is None:
                raise KeyMissing(key_id(frame))
            derived = self._aead(key.master, frame[_SALT])
            with self._lock:
                if len(self._derived) >= _MOST_DERIVED:
                    self._derived.clear()
                self._derived[name] = derived
        return derived


def is_sealed(frame: bytes) -> bool:
    """Whether it is an encrypted frame, and no plain content."""
    return frame.startswith(MAGIC)


def key_id(frame: bytes) -> str:
    """The id of the key of an encrypted frame."""
    return frame[_ID].hex()


def sealed(cipher: Cipher | None, place: Place, content: bytes) -> bytes:
    """The content as it is written: encrypted if there is a cipher that encrypts."""
    return content if cipher is None or not cipher.encrypts else cipher.seal(place, content)


def opened(cipher: Cipher | None, place: Place, written: bytes) -> bytes:
    """The content that was written, encrypted or not. Raises ValueError and KeyMissing."""
    if not is_sealed(written):
        return written
    if cipher is None:
        raise KeyMissing(key_id(written))
    return cipher.open(place, written)


def _library() -> Callable[[bytes, bytes], Any]:
    """Makes the AEAD of a master key and a salt."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError as error:
        raise StateUnusable(
            "state.encryption: it needs the library cryptography: install kubedelta[encryption]"
        ) from error
    return lambda master, salt: AESGCM(HKDF(SHA256(), 32, salt, _INFO).derive(master))


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag


# ── Dead letters ─────────────────────────────────────────────────────────────


class Letter(NamedTuple):
    """The columns of a dead letter that its content is bound to, and its content."""

    sink: str
    sequence: int
    record_id: str
    record: bytes
    reason: str
    answer: str
    sealed: bytes | None = None
    """Reason and answer, encrypted; None where they are plain."""

    def content(self, cipher: Cipher | None) -> bytes:
        """The encoded record. Raises Damaged and KeyMissing."""
        try:
            return opened(cipher, self._place(b"record"), self.record)
        except ValueError as error:
            raise Damaged(f"a dead letter cannot be read: {error}") from error

    def texts(self, cipher: Cipher | None) -> tuple[str, str]:
        """The reason, and the destination's answer. Raises Damaged and KeyMissing."""
        if self.sealed is None:
            return self.reason, self.answer
        try:
            return msgspec.json.decode(opened(cipher, self._place(b"answer"), self.sealed), type=tuple[str, str])
        except (ValueError, msgspec.MsgspecError) as error:
            raise Damaged(f"the answer of a dead letter cannot be read: {error}") from error

    def encrypted(self, cipher: Cipher | None) -> Letter:
        """As it is written. Its record may be encrypted already."""
        if cipher is None or not cipher.encrypts:
            return self
        record = self.record if is_sealed(self.record) else cipher.seal(self._place(b"record"), self.record)
        texts = cipher.seal(self._place(b"answer"), msgspec.json.encode((self.reason, self.answer)))
        return self._replace(record=record, reason="", answer="", sealed=texts)

    def _place(self, column: bytes) -> Place:
        return Place.dead_letter(column, self.sink, self.sequence, self.record_id)


# ── The registry of keys ─────────────────────────────────────────────────────

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
