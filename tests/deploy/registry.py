"""A registry of images and charts on loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, says_ok
from tests.kit.certificates import Authority


class Registry(Server):
    """By TLS, since skopeo and helm speak nothing else to a registry unless they are told."""

    def __init__(self, folder: Path, build: Path) -> None:
        super().__init__(folder)
        self._binary = build / "registry"
        self._blobs = folder / "blobs"
        self._blobs.mkdir()
        self._authority = Authority.make(folder / "certificates")
        self._certificate = self._authority.issue("registry")
        self.address = f"127.0.0.1:{reserve_port()}"

    def command(self) -> Sequence[str | Path]:
        return [self._binary, self.address, self._blobs, self._certificate.certificate, self._certificate.key]

    def is_ready(self) -> bool:
        return says_ok(f"https://{self.address}/v2/")

    @property
    def environ(self) -> Mapping[str, str]:
        """With it, clients written in Go trust the registry."""
        return {**os.environ, "SSL_CERT_FILE": str(self._authority.certificate)}
