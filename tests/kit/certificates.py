"""A certificate authority of a test's own, by the openssl command."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificate:
    certificate: Path
    key: Path

    def server_context(self, clients: Authority | None = None) -> ssl.SSLContext:
        """For a server that shows it; with ``clients`` it asks for a certificate of that authority, and takes none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        if clients:
            context.load_verify_locations(clients.certificate)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context


@dataclass(frozen=True, slots=True)
class Authority:
    folder: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, name: str = "test authority") -> Authority:
        """Without the key identifiers that Python 3.13 asks for, as old clusters have it."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / "ca.crt", folder / "ca.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-keyout", key, "-out", certificate),
            *("-addext", "subjectKeyIdentifier=none", "-addext", "authorityKeyIdentifier=none"),
        )
        return cls(folder, certificate, key)

    def issue(self, name: str, alternatives: str = "IP:127.0.0.1") -> Certificate:
        """``name`` is the common name (a client's user name); ``alternatives`` as openssl writes them."""
        stem = self.folder / name
        certificate, key, request = (stem.with_suffix(each) for each in (".crt", ".key", ".csr"))
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName={alternatives}", "-keyout", key, "-out", request),
        )
        _openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-days", "2"),
            *("-copy_extensions", "copy", "-out", certificate),
        )
        return Certificate(certificate, key)


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
