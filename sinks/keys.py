"""Keys in the form of Standard Webhooks (https://www.standardwebhooks.com), and what sinks sign with them: requests
(``v1`` by HMAC-SHA256, ``v1a`` by Ed25519), and seals of closed files (Ed25519).

The signed content of a request is ``id.timestamp.body``, where ``body`` has the bytes as they are sent: compressed, if
the request has a Content-Encoding.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sinks.receipt import WrongOption
from sinks.secret_files import read_secret

if TYPE_CHECKING:
    from nacl.signing import SigningKey

_SECRET, _PRIVATE, _PUBLIC = "whsec_", "whsk_", "whpk_"
_MIN_BYTES, _MAX_BYTES = 24, 64
"""Bytes of a symmetric secret, by the specification."""
_SEED_BYTES, _PAIR_BYTES = 32, 64
"""Bytes of an Ed25519 key: its seed alone, or followed by the public key."""


class WebhookKey(Protocol):
    """A line of ``secret_file``."""

    encoded: tuple[str, ...]
    """The key in base64, in every form that an endpoint may know: texts that must not be logged."""

    def sign(self, content: bytes) -> str:
        """A signature with its version in front, for ``webhook-signature``."""
        ...


class SymmetricKey:
    """A secret that the endpoint has, too."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.encoded: tuple[str, ...] = (b64encode(secret).decode(),)

    def sign(self, content: bytes) -> str:
        return f"v1,{b64encode(hmac.digest(self._secret, content, hashlib.sha256)).decode()}"


class PrivateKey:
    """An Ed25519 key, whose public half the endpoint has."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key
        seed, public = bytes(key), bytes(key.verify_key)
        self.encoded: tuple[str, ...] = (b64encode(seed + public).decode(), b64encode(seed).decode())

    def sign(self, content: bytes) -> str:
        return f"v1a,{self.signature(content)}"

    def signature(self, content: bytes) -> str:
        """In base64."""
        return b64encode(self._key.sign(content).signature).decode()


def keys_in(text: str, path: Path) -> tuple[WebhookKey, ...]:
    """The keys of a ``secret_file``, each on a line of its own; the prefix tells their kinds apart. Raises WrongOption,
    which names the number of the line but not its content."""
    keys: list[WebhookKey] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            keys.append(_key(line.strip()))
        except ValueError as error:
            raise WrongOption("secret_file", f"{path}, line {number}: {error}") from None
    if not keys:
        raise WrongOption("secret_file", f"{path} holds no secret")
    return tuple(keys)


def private_key(path: Path, option: str) -> PrivateKey:
    """The one key (``whsk_…``) of a file. Blocks. Raises WrongOption for ``option``, without the content."""
    try:
        key = _key(read_secret(path, option).strip())
    except ValueError as error:
        raise WrongOption(option, f"{path}: {error}") from None
    if not isinstance(key, PrivateKey):
        raise WrongOption(option, f"{path} has no private key of Ed25519, which begins with {_PRIVATE}")
    return key


class PublicKey:
    """Shows what its private half has signed."""

    def __init__(self, text: str) -> None:
        """``text``: ``whpk_…``. Raises ValueError."""
        from nacl.signing import VerifyKey

        text = text.strip()
        if text.startswith(_PRIVATE):
            raise ValueError(f"a private key ({_PRIVATE}) stays with the sink; the public key begins with {_PUBLIC}")
        try:
            key = b64decode(text.removeprefix(_PUBLIC), validate=True)
        except binascii.Error:
            raise ValueError(f"not base64; a public key is {_PUBLIC} and base64") from None
        if len(key) != _SEED_BYTES or not text.startswith(_PUBLIC):
            raise ValueError(f"a public key is {_PUBLIC} and {_SEED_BYTES} bytes in base64")
        self._key = VerifyKey(key)

    def verifies(self, content: bytes, signature: bytes) -> bool:
        """``signature``: in base64."""
        from nacl.exceptions import CryptoError

        try:
            self._key.verify(content, b64decode(signature, validate=True))
        except (CryptoError, ValueError):
            return False
        return True


def signature(keys: Sequence[WebhookKey], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: a signature by each key. ``timestamp``: seconds since 1970."""
    signed = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join([key.sign(signed) for key in keys])


def _key(text: str) -> WebhookKey:
    """Raises ValueError, without the text."""
    if text.startswith(_PUBLIC):
        raise ValueError("a public key (whpk_) cannot sign; the private key begins with whsk_")
    private = text.startswith(_PRIVATE)
    try:
        key = b64decode(text.removeprefix(_PRIVATE if private else _SECRET), validate=True)
    except binascii.Error:
        raise ValueError("not base64; a secret is whsec_ and base64, a private key whsk_ and base64") from None
    return _private_key(key) if private else _symmetric_key(key)


def _symmetric_key(key: bytes) -> SymmetricKey:
    if not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        raise ValueError(f"a secret has {_MIN_BYTES} to {_MAX_BYTES} bytes, this one {len(key)}")
    return SymmetricKey(key)


def _private_key(key: bytes) -> PrivateKey:
    from nacl.signing import SigningKey

    if len(key) not in (_SEED_BYTES, _PAIR_BYTES):
        raise ValueError(f"a private key has {_SEED_BYTES} or {_PAIR_BYTES} bytes, this one {len(key)}")
    signing = SigningKey(key[:_SEED_BYTES])
    if key[_SEED_BYTES:] not in (b"", bytes(signing.verify_key)):
        raise ValueError("the public key in the second half belongs to another private key")
    return PrivateKey(signing)
