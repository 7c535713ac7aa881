"""Signatures of Standard Webhooks (https://www.standardwebhooks.com), symmetric (``v1``)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

from sinks.errors import WrongOption

_PREFIX = "whsec_"
_MIN_BYTES, _MAX_BYTES = 24, 64
"""Bytes of a secret, by the specification."""


def keys_in(text: str, path: Path) -> tuple[bytes, ...]:
    """The keys of a ``secret_file``, each on a line of its own. Raises WrongOption, which names the number of the line
    but not its content."""
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
        if not _MIN_BYTES <= len(key) <= _MAX_BYTES:
            allowed = f"a secret has {_MIN_BYTES} to {_MAX_BYTES} bytes"
            raise WrongOption("secret_file", f"{path}, line {number}: {allowed}, this one {len(key)}")
        keys.append(key)
    if not keys:
        raise WrongOption("secret_file", f"{path} holds no secret")
    return tuple(keys)


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: a ``v1`` signature for each key. ``timestamp``: seconds since 1970."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}" for key in keys)
