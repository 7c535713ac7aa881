"""A pod's container as a process of the testbed."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.cluster.servers import KubeApiServer
from tests.deploy.image import Pod
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY


class Container(BridgeProcess):
    """The bridge in a container. Signals go through the runtime, and its exit code is the container's."""

    forks = False

    def __init__(self, folder: Path, pod: Pod, config: Path) -> None:
        super().__init__(folder, config, environ=dict(pod.environ))
        self.name = f"kubedelta-test-{secrets.token_hex(4)}"
        self._runtime = ["runc", "--root", str(folder / "runtime")]
        self._bundle = folder / "bundle"
        self._bundle.mkdir()
        listen = {"KUBEDELTA__TELEMETRY__LISTEN": self.address}  # the host's network has one port 8080
        bundle = replace(pod, environ={**pod.environ, **listen}).bundle()
        (self._bundle / "config.json").write_text(json.dumps(bundle))

    def command(self) -> Sequence[str | Path]:
        return [*self._runtime, "run", "--bundle", self._bundle, self.name]

    def state_of_process(self) -> dict[str, str]:
        """/proc/PID/status of the container's first process."""
        state = json.loads(self._run("state", self.name).stdout)
        lines = Path(f"/proc/{state['pid']}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in the container, as `kubectl exec` runs it."""
        return self._run("exec", self.name, *words)

    def delete(self) -> None:
        self._run("delete", "--force", self.name)

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._runtime, *words],
            capture_output=True,
            text=True,
            timeout=120 * BUSY,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def service_account(folder: Path, server: KubeApiServer, user: str) -> tuple[Path, dict[str, str]]:
    """What a pod gets to speak to the API server as this user: a folder, and variables."""
    folder.mkdir()
    (folder / "token").write_text(server.token(user))
    (folder / "ca.crt").write_bytes(server.ca_file.read_bytes())
    (folder / "namespace").write_text("kubedelta")
    host, _, port = server.url.removeprefix("https://").rpartition(":")
    return folder, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
