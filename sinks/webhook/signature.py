"""Signatures of Standard Webhooks (https://www.standardwebhooks.com), symmetric (``v1``)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from sinks.base import WrongOption

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bytes of a secret, as the specification has them."""


def keys_in(text: str, path: Path) -> tuple[bytes, ...]:
    """The keys of a ``secret_file``, one a line. Raises WrongOption that names the line and not its content."""
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            key = b64decode(line.strip().removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise WrongOption(
                "secret_file", f"{path}, line {number}: not base64; a secret is whsec_ and base64"
            ) from None
        if not _SHORTEST <= len(key) <= _LONGEST:
            allowed = f"a secret has {_SHORTEST} to {_LONGEST} bytes"
            raise WrongOption("secret_file", f"{path}, line {number}: {allowed}, this one {len(key)}")
        keys.append(key)
    if not keys:
        raise WrongOption("secret_file", f"{path} holds no secret")
    return tuple(keys)


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one ``v1`` for each key. ``timestamp`` is in seconds since 1970."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys)
