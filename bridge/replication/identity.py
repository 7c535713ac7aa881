"""Lets a leader and its followers know each other, without a certificate authority and without configuration; and
remembers which processes had the state directory before this one.

The leader makes a key and a certificate for itself in memory, at the start of each term, and the Lease has the
certificate's fingerprint: a follower speaks TLS to nobody else. But whoever can write the Lease could put another
fingerprint there. So both sides also show that they have the redaction key, which all replicas share: the follower by a
token, the leader by a proof over a number that the follower chose. Both are made of the key *and* the fingerprint by
HKDF (RFC 5869): what a false leader gets to see is of no use with the true one. While the key is renewed, a replica has
several, of which the other side needs one.

All replicas have the redaction key anyway. Certificates from outside would cost an operator an authority, two Secrets
and their renewal, for a connection on which both ends are the same program. The price: who has that key can read the
state over the network.

A file in the state directory has the last identities that took the Lease with that directory. Their processes ended
before this one could lock the directory, so a Lease of theirs is free, and what one of them published last is true of
the directory, however many others were killed since before they published anything.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bridge.http.certificates import self_signed
from bridge.model.primitives.shard import Shard
from bridge.model.status import replica_of
from bridge.outbox import Cipher
from bridge.plan.plan import ElectionPlan
from bridge.plan.private_file import write_private

MOST_KEYS = 5
"""The present key and the former ones that a configuration can name."""
_NAME = "kubedelta-replication"
_SCHEME = "Bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What this replica is."""

    election: ElectionPlan
    identity: str
    """Of this process alone."""
    cluster: str
    shard: Shard | None
    keys: Sequence[bytes]
    """Made of the redaction keys, the present one first: replicas that have one in common know each other."""
    state: Path
    """The state directory."""
    cipher: Cipher | None
    api_server: str
    """Its URL: a leader listens on the address from which it is reached."""

    @property
    def bridge(self) -> str:
        """A name that no bridge with the same redaction key has."""
        return f"{self.cluster}/{self.election.namespace}/{self.election.lease}"

    @property
    def shard_name(self) -> str:
        """Empty for all objects."""
        return "" if self.shard is None else self.shard.name


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """A leader's, for a term."""

    context: ssl.SSLContext
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal digits."""


def new_identity(folder: Path) -> ServerIdentity:
    """Makes a key and a certificate; see ``self_signed``."""
    context, certificate = self_signed(_NAME, folder)
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).hexdigest()
    return ServerIdentity(context, fingerprint)


class SharedSecret:
    """What is made of the redaction keys for the connections to one leader. Both sides say what they make of each of
    their keys, in the keys' order, and one key in common is enough: so a key is renewed replica by replica."""

    def __init__(self, keys: Sequence[bytes], bridge: str, fingerprint: str) -> None:
        """``keys``: the present one and former ones, at most ``MOST_KEYS``. ``bridge``: tells bridges with the same key
        apart. ``fingerprint``: of the leader's certificate."""
        info = f"{bridge}\0{fingerprint}".encode()
        made = [HKDF(hashes.SHA256(), 64, salt=b"kubedelta replication", info=info).derive(key) for key in keys]
        self._tokens = [each[:32].hex() for each in made]
        self._provers = [each[32:] for each in made]

    @property
    def authorization(self) -> str:
        """The follower's header."""
        return _SCHEME + ".".join(self._tokens)

    def opens(self, authorization: str) -> bool:
        """Whether this header has a token of ours."""
        return authorization.startswith(_SCHEME) and _share(self._tokens, authorization.removeprefix(_SCHEME))

    def proof(self, nonce: str) -> str:
        """The leader's answer to the number that a follower chose."""
        return ".".join(self._proofs(nonce))

    def proves(self, nonce: str, proof: str) -> bool:
        """Whether this answer has a proof of ours."""
        return _share(self._proofs(nonce), proof)

    def _proofs(self, nonce: str) -> list[str]:
        chosen = nonce.encode("utf-8", "surrogateescape")
        return [hmac.new(each, chosen, hashlib.sha256).hexdigest() for each in self._provers]


def _share(ours: Sequence[str], theirs: str) -> bool:
    """Whether one of ours is among theirs, which somebody else has said. Each is compared with each, however the
    comparisons before ended: the time tells nothing of ours but their number."""
    said = theirs.encode("utf-8", "surrogateescape").split(b".", MOST_KEYS)[:MOST_KEYS]
    alike = [hmac.compare_digest(each.encode(), other) for each in ours for other in said]
    return any(alike)


def new_nonce() -> str:
    """Hexadecimal digits, never used before."""
    return secrets.token_hex(16)


# ── Who had the state directory before ───────────────────────────────────────

FILE = "lease-holder"
_MOST = 16
_LONGEST = 16 * 512
"""Bytes."""


def read_predecessors(state: Path, name: str) -> tuple[str, ...]:
    """The identities in ``state``, the last one first, if they are of the replica ``name``: a copied directory may have
    those of another replica. The caller holds the lock of the directory."""
    with suppress(OSError, UnicodeDecodeError), os.fdopen(os.open(state / FILE, os.O_RDONLY | os.O_NOFOLLOW)) as file:
        return tuple(each for each in file.read(_LONGEST).splitlines()[:_MOST] if replica_of(each) == name)
    return ()


def write_identities(state: Path, identities: Sequence[str]) -> None:
    """The last one first. See ``write_private``."""
    write_private(state / FILE, "\n".join(identities[:_MOST]))
