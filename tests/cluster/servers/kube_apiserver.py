"""kube-apiserver with RBAC and static tokens; any number of them on one etcd."""

from __future__ import annotations

import base64
import json
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from tests.cluster.servers.etcd import Etcd
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, says_ok

USERS = {"admin": "system:masters", "restricted": "restricted"}
"""Each user's group. `admin` may do everything; `restricted` nothing but discovery until a test binds a role to it."""


class KubeApiServer(Server):
    """One API server. Later flags win over the ones below, so a test may change every one of them.

    A second one on the same etcd accepts the first one's tokens and service accounts, and has a certificate of its own.
    """

    stop_timeout = 5.0  # It waits for open watches, which a test may have left.

    def __init__(self, folder: Path, build: Path, etcd: Etcd, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.etcd = etcd
        self.port = reserve_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.ca_file = folder / "certificates" / "apiserver.crt"
        """The certificate that the server made for itself at its first start, with the authority that signed it."""
        self.secrets = ClusterSecrets.of(etcd)
        self._binary = build / "kube-apiserver"
        self._flags = flags

    def command(self) -> Sequence[str | Path]:
        return [
            # It lives for minutes: collecting garbage would be a fourth of what its start costs.
            *("env", "GOGC=off", "GOMEMLIMIT=700MiB"),
            self._binary,
            f"--etcd-servers={self.etcd.url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.ca_file.parent}",
            f"--service-account-key-file={self.secrets.service_account_key}",
            f"--service-account-signing-key-file={self.secrets.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.secrets.token_file}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
            *self._flags,
        ]

    def is_ready(self) -> bool:
        try:
            return self.ca_file.exists() and says_ok(f"{self.url}/readyz", self.tls)
        except ssl.SSLError:  # The server is just writing its certificate.
            return False

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Trusts this server alone."""
        context = ssl.create_default_context(cafile=self.ca_file)
        # Python 3.13 asks of an authority what the one the server makes for itself does not have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context

    def token(self, user: str = "admin") -> str:
        """The bearer token of one of USERS."""
        return self.secrets.tokens[user]

    def kubeconfig(self, path: Path, user: str = "admin") -> Path:
        """Write a kubeconfig for the user; kubectl reads it too."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "testbed", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}
            ],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
            "current-context": "testbed",
        }
        path.write_text(json.dumps(config, indent=2))
        return path


@dataclass(frozen=True, slots=True)
class ClusterSecrets:
    """What all API servers on one etcd share."""

    service_account_key: Path
    token_file: Path
    tokens: dict[str, str]

    @classmethod
    def of(cls, etcd: Etcd) -> Self:
        """Read them from etcd's folder, or make them there for the first API server; two may start at once."""
        key, tokens = etcd.folder / "service-account.pem", etcd.folder / "tokens.csv"
        _write_once(key, _private_key())
        _write_once(tokens, "".join(f'{secrets.token_hex(16)},{user},{user},"{USERS[user]}"\n' for user in USERS))
        rows = (line.split(",") for line in tokens.read_text().splitlines())
        return cls(key, tokens, {user: token for token, user, *_ in rows})


def _write_once(path: Path, text: str) -> None:
    """Whole or not at all, and the first writer wins: servers are started from several threads."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    draft.write_text(text)
    with suppress(FileExistsError):
        path.hardlink_to(draft)
    draft.unlink()


def _private_key() -> str:
    """A fresh P-256 key as PEM. RFC 5915: version 1, the number, the curve; the public half may be left out."""
    number = secrets.token_bytes(32)  # Beyond the curve's order once in 2**32.
    der = b"\x30\x31\x02\x01\x01\x04\x20" + number + b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"
    return f"-----BEGIN EC PRIVATE KEY-----\n{base64.encodebytes(der).decode()}-----END EC PRIVATE KEY-----\n"
