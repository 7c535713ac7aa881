"""etcd, one member, without fsync: data survives a kill, not a power cut."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, says_ok

_ZERO = base64.b64encode(b"\0").decode()
EVERYTHING = {"key": _ZERO, "range_end": _ZERO}
"""From key 0 to key 0, in the form of etcd's JSON gateway."""


class Etcd(Server):
    """One etcd. Its versions are what the API servers on it call resourceVersion."""

    def __init__(self, folder: Path, build: Path) -> None:
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{reserve_port()}"
        self._peer_url = f"http://127.0.0.1:{reserve_port()}"
        self._binary = build / "etcd"
        self._data = folder / "data"

    def command(self) -> Sequence[str | Path]:
        return [
            self._binary,
            "--name=testbed",
            f"--data-dir={self._data}",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=testbed={self._peer_url}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def is_ready(self) -> bool:
        return says_ok(f"{self.url}/health")

    def revision(self) -> int:
        """The newest version in the store."""
        answer = self._ask("range", {**EVERYTHING, "limit": 1})
        return int(answer["header"]["revision"])

    def delete(self, folder: str) -> None:
        """All with such a folder (`/shop/`) in their keys, and what has its name; each in a version of its own."""
        for each in self._ask("range", {**EVERYTHING, "keys_only": True}).get("kvs", []):
            if folder in f"{base64.b64decode(each['key']).decode()}/":
                self._ask("deleterange", {"key": each["key"]})

    def advance(self, versions: int = 1) -> None:
        """Raises the newest version by changes that are no objects, where no API server looks."""
        for _ in range(versions):
            self._ask("put", {"key": base64.b64encode(b"kubedelta-test").decode()})

    def compact(self) -> int:
        """Forget all versions before the newest, and return that. A watch that misses only the newest still gets it.

        An API server that is running still knows the newer ones in its watch cache; one with `--watch-cache=false`, or
        one started after this, answers 410 for them.
        """
        revision = self.revision()
        self._ask("compaction", {"revision": revision, "physical": True})
        return revision

    def wipe(self) -> None:
        """Throw all data away, so that versions start at 1 again. The process must be stopped."""
        if self.running:
            raise RuntimeError(f"{self} runs: stop it before its data is deleted")
        shutil.rmtree(self._data)

    def back_up(self, folder: Path) -> None:
        """Copy all data as it is at this moment, as a snapshot of its disk would."""
        self.pause()
        try:
            shutil.copytree(self._data, folder)
        finally:
            self.resume()

    def restore(self, folder: Path) -> None:
        """Go back to a backup: versions that were given since are given again. The process must be stopped."""
        self.wipe()
        shutil.copytree(folder, self._data)

    def _ask(self, method: str, body: dict[str, object]) -> dict[str, Any]:
        """Call etcd's JSON gateway, https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/."""
        answer = httpx.post(f"{self.url}/v3/kv/{method}", json=body, verify=False, trust_env=False, timeout=10)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found
