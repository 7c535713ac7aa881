"""Encrypts the content of the database, in frames of AES-256-GCM that can be read only in their place.

The id of a key is a digest of the key, as in redaction: a file cannot be given the name of another key, and a wrong key
is a missing key, which is an error of the configuration and never damage.

A frame has a magic number, the id of the key, a salt, the number of the message, the ciphertext, and its tag. The key
of a frame is derived (HKDF-SHA256) from the operator's key and the salt, which is random in each opened state; the
number of the message is the nonce. So a nonce never repeats under a key, however many messages there are. A frame is
bound to its place in the database (``Place``): it can be read nowhere else. A dead letter (``Letter``) has two frames,
since its answer changes while its record stays.

Random nonces of 96 bits allow 2^32 messages under a key (NIST SP 800-38D): at 5,000 events a second these are gone
after ten days, and nobody rotates that often. With numbers under derived keys no nonce comes twice before 2^64
messages, and salts of two starts are equal with a chance of 2^-64 after 2^32 starts. AES-GCM-SIV would forgive a
repeated nonce, but not every OpenSSL has that. The price: 24 bytes a frame for salt and number; and a process that is
cloned while it runs (a snapshot of a virtual machine's memory, continued twice) uses numbers twice: restart the bridge
after such a restore.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from typing import Any, Final, NamedTuple

import msgspec

from bridge.outbox.errors import Damaged, StateUnusable

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
