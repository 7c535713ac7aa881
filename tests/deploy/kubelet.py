"""In place of kubelets: a process for each pod, its readiness, its polite end, and its name in the cluster's DNS."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.cluster.kube_client import KubeClient, Manifest
from tests.deploy.pod_process import Files, PodProcess


class Kubelet:
    """Of one namespace."""

    def __init__(self, kube: KubeClient, namespace: str, folder: Path) -> None:
        self._kube = kube
        self._root = f"/api/v1/namespaces/{namespace}"
        self._folder = folder
        self._names = folder / "names.json"
        self._addresses: dict[str, str] = {}
        self._begun: set[str] = set()
        """Uids."""
        self._ready: set[PodProcess] = set()
        self._lock = asyncio.Lock()
        self.bridges: dict[str, PodProcess] = {}
        """By the names of their pods."""
        self.ended: dict[str, PodProcess] = {}
        """The last of each name."""
        folder.mkdir()
        self._tell()

    async def is_ready(self, pod: Manifest) -> bool:
        """Runs the pod, if it does not run yet."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        async with self._lock:
            if uid not in self._begun:
                self._begun.add(uid)
                bridge = await self._made(pod)
                await self._name(pod, bridge)
                await asyncio.to_thread(bridge.launch)
                self.bridges[name] = bridge
            return self.bridges.get(name) in self._ready

    async def end(self, pod: Manifest) -> None:
        """SIGTERM. Returns once the process has ended. Raises ServerFailed if it does not end with 0."""
        name = pod["metadata"]["name"]
        async with self._lock:
            if (bridge := self.bridges.pop(name, None)) is not None:
                self._ready.discard(bridge)
                self.ended[name] = bridge
                await asyncio.to_thread(bridge.stop)

    async def probe(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Asks each pod whether it is ready. Does not end."""
        while True:
            ready = {each for each in [*self.bridges.values()] if await _is_ready(each)}
            if (ready := ready & {*self.bridges.values()}) != self._ready:
                self._ready = ready
                await changed()
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        for each in self.bridges.values():
            each.kill9()

    async def _made(self, pod: Manifest) -> PodProcess:
        volumes = {each["name"]: await self._volume(each) for each in pod["spec"]["volumes"]}
        account = f"{self._root}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        token = (await self._kube.create(f"{account}/token", {"spec": {"expirationSeconds": 3600}}))["status"]["token"]
        folder = self._folder / pod["metadata"]["uid"]
        return PodProcess(pod, folder, volumes, self._kube.server, token, self._names)

    async def _volume(self, volume: Manifest) -> Files | Path:
        if "configMap" in volume:
            config = await self._kube.get(f"{self._root}/configmaps/{volume['configMap']['name']}")
            return {name: str(text) for name, text in config["data"].items()}
        if "secret" in volume:
            secret = await self._kube.get(f"{self._root}/secrets/{volume['secret']['secretName']}")
            return {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
        if "persistentVolumeClaim" in volume:
            claims = f"{self._root}/persistentvolumeclaims"
            claim = await self._kube.get(f"{claims}/{volume['persistentVolumeClaim']['claimName']}")
            folder = self._folder / str(claim["spec"]["volumeName"])
            folder.mkdir(exist_ok=True)
            return folder
        assert "emptyDir" in volume
        return {}

    async def _name(self, pod: Manifest, bridge: PodProcess) -> None:
        """A pod with a subdomain has a name if a headless Service of that name selects it."""
        spec, metadata = pod["spec"], pod["metadata"]
        for service in (await self._kube.get(f"{self._root}/services"))["items"]:
            selector = service["spec"].get("selector", {}).items()
            name, is_headless = service["metadata"]["name"], service["spec"]["clusterIP"] == "None"
            if name == spec.get("subdomain") and is_headless and selector <= metadata["labels"].items():
                self._addresses[f"{spec['hostname']}.{name}.{metadata['namespace']}.svc"] = bridge.ip
        self._tell()

    def _tell(self) -> None:
        part = self._names.with_suffix(".part")
        part.write_text(json.dumps(self._addresses))
        part.replace(self._names)


async def _is_ready(bridge: PodProcess) -> bool:
    try:
        return await bridge.ready()
    except (OSError, TimeoutError):
        return False


@asynccontextmanager
async def running(kube: KubeClient, namespace: str, folder: Path) -> AsyncIterator[Kubelet]:
    """Kills what runs at the end."""
    kubelet = Kubelet(kube, namespace, folder)
    try:
        yield kubelet
    finally:
        kubelet.kill()
