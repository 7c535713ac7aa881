"""A key of the digests that stand for secret values.

A renewed key signs beside its predecessor: a value has two digests, so a reader can compare across the renewal. To keep
the old digest until a value changes would need the last state of every object, and keep using a key that may be known.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final

from bridge.model.object import DIGEST_PREFIX

SHORTEST_KEY = 32
"""Bytes. Shorter keys weaken HMAC-SHA256, longer keys do not strengthen it (RFC 2104, section 3)."""


_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
_length = Struct(">Q").pack
DIGEST: Final = DIGEST_PREFIX + "[0-9a-f]{8}:[0-9a-f]{64}"
"""A regular expression for a digest under a single key."""


class RedactionKey:
    """Replaces a secret value by a keyed digest (HMAC-SHA256, RFC 2104).

    Equal inputs have equal digests until the key changes: a reader sees the rotation of a value, and cannot test
    guesses without the key. ``repr`` never shows the key.
    """

    __slots__ = ("_beginning", "_inner", "_outer", "id")

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key of less than ``SHORTEST_KEY`` bytes."""
        if len(key) < SHORTEST_KEY:
            raise ValueError(f"a key of at least {SHORTEST_KEY} bytes is expected, found {len(key)}")
        padded = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner = sha256(padded.translate(_INNER))
        self._outer = sha256(padded.translate(_OUTER))
        """The two hashes of an HMAC, with the key in them. Copies cost a fourth of ``hmac.digest``."""
        self.id = hmac.digest(key, b"kubedelta redaction key", "sha256").hex()[:8]
        """The name of the key, in every digest. It is a digest too, so it makes guesses of the key no cheaper."""
        self._beginning = f"{DIGEST_PREFIX}{self.id}:"

    def derived(self, purpose: str) -> bytes:
        """Another key of 32 bytes, for this purpose alone."""
        inner, whole = self._inner.copy(), self._outer.copy()
        inner.update(f"kubedelta {purpose}".encode())
        whole.update(inner.digest())
        return whole.digest()

    def starting_with(self, *parts: bytes) -> Callable[..., str]:
        """Makes digests, ``hmac-sha256:<key id>:<64 hexadecimal digits>``, over these parts, those that it is called
        with, and the bounds between them. The former are hashed once for many values."""
        common, outer, beginning = self._inner.copy(), self._outer, self._beginning
        common.update(_bounded(parts))

        def digest(*rest: bytes) -> str:
            inner = common.copy()
            inner.update(_bounded(rest))
            whole = outer.copy()
            whole.update(inner.digest())
            return beginning + whole.hexdigest()

        return digest


def _bounded(parts: tuple[bytes, ...]) -> bytes:
    # With its length in front of each part: (ab, c) and (a, bc) must have different digests.
    return b"".join([_length(len(part)) + part for part in parts])
