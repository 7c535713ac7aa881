"""The bridge of a real pod's spec, as a process beside the tests.

It has the environment, the arguments and the files of the spec; mount paths lie below a folder, also within files. An
address on the loopback network stands for the pod's, and a file of names for the cluster's DNS.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bridge.cli import main as kubedelta
from bridge.kube import client
from bridge.kube.auth import access as in_cluster
from tests.cluster.kube_client import Manifest
from tests.cluster.servers import KubeApiServer
from tests.cluster.servers.process import Process
from tests.deploy.helm import environ_in
from tests.kit.bridge_process import BridgeProcess
from tests.kit.fork_server import fork_server

_ACCOUNT, _NAMES = "TEST_SERVICE_ACCOUNT", "TEST_NAMES"
_MAIN = f"from {__name__} import main; raise SystemExit(main())"

Files = Mapping[str, str]
"""Name → contents."""


class PodProcess(BridgeProcess):
    """Signals reach it as those of the kubelet do."""

    def __init__(
        self,
        pod: Manifest,
        folder: Path,
        volumes: Mapping[str, Files | Path],
        server: KubeApiServer,
        token: str,
        names: Path,
    ) -> None:
        """``volumes``: by name. ``token``: of the pod's service account. ``names``: a JSON file, name → address."""
        [self._container] = pod["spec"]["containers"]
        mounts = {each["mountPath"]: volumes[each["name"]] for each in self._container["volumeMounts"]}
        self._root = folder / "root"
        self._paths = re.compile("|".join(sorted(map(re.escape, mounts), key=len, reverse=True)))
        for path, volume in mounts.items():
            self._mount(path, volume)
        # 127.0.0.0/8 is all loopback: each pod has an address, and the ports of its spec.
        self.ip = "127." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))
        ports = {each["name"]: f"{self.ip}:{each['containerPort']}" for each in self._container["ports"]}
        host, _, port = server.url.removeprefix("https://").rpartition(":")
        environ = {
            **environ_in(self._container, pod["metadata"]["name"]),
            "KUBEDELTA__TELEMETRY__LISTEN": ports["http"],
            "KUBEDELTA__ELECTION__PORT": "0",  # All pods of these tests have one address to the API server.
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
            _ACCOUNT: str(_service_account(folder / "account", server, token, pod)),
            _NAMES: str(names),
        }
        config = Path(self._inside(self._container["args"][-1]))
        super().__init__(folder, config, environ=environ, waits=False)
        self.address = ports["http"]
        self.state = Path(self._inside("/var/lib/kubedelta"))

    def _mount(self, path: str, volume: Files | Path) -> None:
        target = Path(self._inside(path))
        if isinstance(volume, Path):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(volume)
            return
        target.mkdir(parents=True)
        for name, text in volume.items():
            (target / name).write_text(self._paths.sub(lambda found: f"{self._root}{found[0]}", text))

    def _inside(self, path: str) -> str:
        return f"{self._root}{path}" if self._paths.match(path) else path

    def words(self) -> Sequence[str]:
        return [self._inside(each) for each in self._container["args"]]

    def environ(self) -> dict[str, str]:
        return self._environ

    def spawn(self, log: int) -> Process:
        return fork_server().start(
            self.words(), log, log, folder=self.folder, environ=self.environ(), code=_MAIN, modules=[__name__]
        )


def _service_account(folder: Path, server: KubeApiServer, token: str, pod: Manifest) -> Path:
    folder.mkdir(parents=True)
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_bytes(server.ca_file.read_bytes())
    (folder / "namespace").write_text(pod["metadata"]["namespace"])
    return folder


def main() -> int:
    """In the process: kubedelta, with the pod's account and names."""
    account, names = Path(os.environ.pop(_ACCOUNT)), Path(os.environ.pop(_NAMES))
    in_cluster.pod_namespace.__defaults__ = (account,)
    client.connect.__wrapped__.__kwdefaults__["service_account"] = account  # type: ignore[attr-defined]
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *others: Any, **options: Any) -> Any:
        return resolve(json.loads(names.read_text()).get(host, host), *others, **options)

    socket.getaddrinfo = getaddrinfo
    return kubedelta()
