"""A replica that reaches others through lines in between.

The Lease says where a leader listens, and nobody can change it on the way to a follower: what it says is signed by the
API server's certificate. So the process itself goes another way to the addresses that it finds there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridge.cli import main as kubedelta
from bridge.replication import following, replica
from tests.cluster.servers.process import Process
from tests.kit.bridge_process import BridgeProcess
from tests.kit.fork_server import fork_server

_ROUTES = "TEST_ROUTES"
_MAIN = f"from {__name__} import main; raise SystemExit(main())"


class Rerouted(BridgeProcess):
    def __init__(
        self, folder: Path, config: Mapping[str, Any], routes: Mapping[int, int], *, waits: bool = True
    ) -> None:
        """``routes``: port of a leader → port of the line to it."""
        super().__init__(folder, config, environ={_ROUTES: json.dumps(routes)}, waits=waits)

    def spawn(self, log: int) -> Process:
        return fork_server().start(
            self.words(), log, log, folder=self.folder, environ=self.environ(), code=_MAIN, modules=[__name__]
        )


def main() -> int:
    """In the process: kubedelta, with these routes."""
    routes = json.loads(os.environ.pop(_ROUTES))

    def rerouted(address: str, fingerprint: str, term: int) -> following.Leader:
        host, _, port = address.rpartition(":")
        return following.Leader(f"{host}:{routes.get(port, port)}", fingerprint, term)

    vars(replica)["Leader"] = rerouted
    return kubedelta()
