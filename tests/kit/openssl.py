"""Ed25519 by the openssl command: the oracle for our own signatures."""

from __future__ import annotations

import subprocess
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_PUBLIC_HEAD = bytes.fromhex("302a300506032b6570032100")
"""Of a SubjectPublicKeyInfo (RFC 8410); the 32 bytes of the key follow."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    seed: bytes
    public: bytes

    @classmethod
    def make(cls) -> Self:
        private = _openssl("genpkey", "-algorithm", "ed25519", "-outform", "DER")
        public = _openssl("pkey", "-inform", "DER", "-pubout", "-outform", "DER", stdin=private)
        return cls(private[-32:], public[-32:])

    def private(self, *, whole: bool = True) -> str:
        """As Standard Webhooks writes it. ``whole``: with the public key behind the seed."""
        return "whsk_" + b64encode(self.seed + self.public if whole else self.seed).decode()


def verifies(pair: KeyPair, content: bytes, signature: str) -> bool:
    """Whether the signature (base64) of this content was made with the private key."""
    with tempfile.TemporaryDirectory() as folder:
        key, text, signed = (Path(folder) / name for name in ("key", "text", "signed"))
        key.write_bytes(_PUBLIC_HEAD + pair.public)
        text.write_bytes(content)
        signed.write_bytes(b64decode(signature, validate=True))
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", str(key), "-rawin"]
        done = subprocess.run([*command, "-in", str(text), "-sigfile", str(signed)], capture_output=True, check=False)
    return done.returncode == 0


def _openssl(*arguments: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(["openssl", *arguments], input=stdin, capture_output=True, check=True).stdout
