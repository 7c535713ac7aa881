"""A key of the operator, and its id. Pure.

The id of a key is a digest of the key, as in redaction: a file cannot be given the name of another key, and a wrong key
is a missing key, which is an error of the configuration and never damage.
"""

from __future__ import annotations

import hmac

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
