"""The key of the digests that stand for a Secret's values. Pure."""

from __future__ import annotations

import hmac

SHORTEST_KEY = 32
"""Bytes. HMAC with SHA-256 gains nothing from more, and is guessed from less (RFC 2104, section 3)."""


class RedactionKey:
    """Replaces a secret value by a keyed digest (HMAC-SHA256, RFC 2104).

    Equal inputs have equal digests as long as the key lasts: a reader sees that a value was rotated, and cannot test
    guesses without the key. ``repr`` never shows the key.
    """

    __slots__ = ("_key", "id")

    def __init__(self, key: bytes) -> None:
        """``key`` has at least ``SHORTEST_KEY`` bytes; raises ValueError for a shorter one."""
        if len(key) < SHORTEST_KEY:
            raise ValueError(f"a key of at least {SHORTEST_KEY} bytes is expected, found {len(key)}")
        self._key = key
        self.id = hmac.digest(key, b"kubedelta redaction key", "sha256").hex()[:8]
        """Names the key in every digest. Made with the key itself, so that no guess of the key can be tested without
        as much work as on a digest."""

    def digest(self, *parts: bytes) -> str:
        """``hmac-sha256:<key id>:<64 hexadecimal digits>`` over all parts and the bounds between them."""
        message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        return f"hmac-sha256:{self.id}:{hmac.digest(self._key, message, 'sha256').hex()}"
