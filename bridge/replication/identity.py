"""How a leader and its followers know each other, without a certificate authority and without configuration.

The leader makes a key and a certificate for itself in memory, at the start of each term, and the Lease has the
certificate's fingerprint: a follower speaks TLS to nobody else. But whoever can write the Lease could put another
fingerprint there. So both sides also show that they have the redaction key, which all replicas share: the follower by a
token, the leader by a proof over a number that the follower chose. Both are made of the key *and* the fingerprint by
HKDF (RFC 5869): what a false leader gets to see is of no use with the true one.

All replicas have the redaction key anyway. Certificates from outside would cost an operator an authority, two Secrets
and their renewal, for a connection on which both ends are the same program. The price: who has that key can read the
state over the network.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import secrets
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import NameOID

_NAME = "kubedelta-replication"
_DAYS = 3650


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A leader's, for a term."""

    context: ssl.SSLContext
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal digits."""


def new_identity(folder: Path) -> ServerIdentity:
    """Makes a key and a certificate. ``folder``: a private one, in which they are for a moment, since OpenSSL reads
    files alone. Blocks for some milliseconds. Raises OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .sign(key, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile(dir=folder) as file:  # Mode 0600.
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.write(certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(file.name)
    fingerprint = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
    return ServerIdentity(context, fingerprint)


class SharedSecret:
    """What is made of the redaction key for the connections to one leader."""

    def __init__(self, key: bytes, bridge: str, fingerprint: str) -> None:
        """``bridge``: tells bridges with the same key apart. ``fingerprint``: of the leader's certificate."""
        made = HKDF(
            hashes.SHA256(), 64, salt=b"kubedelta replication", info=f"{bridge}\0{fingerprint}".encode()
        ).derive(key)
        self.token = made[:32].hex()
        """The follower's."""
        self._proofs = made[32:]

    def opens(self, authorization: str) -> bool:
        """Whether this header has the token."""
        return hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())

    def proof(self, nonce: str) -> str:
        """The leader's answer to the number that a follower chose."""
        return hmac.new(self._proofs, nonce.encode(), hashlib.sha256).hexdigest()

    def proves(self, nonce: str, proof: str) -> bool:
        return hmac.compare_digest(proof.encode(), self.proof(nonce).encode())


def new_nonce() -> str:
    """Hexadecimal digits, never used before."""
    return secrets.token_hex(16)
