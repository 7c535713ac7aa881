"""Several API servers on one etcd, behind one address, restarted one after the other under load: each has a cache of
its own that may lag behind, and none of them is another history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.cluster.fixtures import StartKubeApiServer
from tests.cluster.kube_client import KubeClient
from tests.cluster.servers import KubeApiServer
from tests.kit.breakable import Breakable
from tests.kit.bridge_process import BridgeProcess
from tests.kit.churn import KINDS, an_object, churning
from tests.kit.etcd_history import JSON_STORAGE, NO_COMPACTION, history
from tests.kit.judge import judge_all
from tests.kit.received import Received, from_file, received_lists
from tests.kit.tcp_line import Line


@pytest.mark.parametrize(
    "namespaces",
    [
        pytest.param(["shop", "prod"], id="two"),
        pytest.param(["shop", "prod", "test"], id="three", marks=pytest.mark.soak),
    ],
)
async def test_the_epoch_stays_and_nothing_is_lost(
    breakable: Breakable, start_kube_apiserver: StartKubeApiServer, tmp_path: Path, namespaces: Sequence[str]
) -> None:
    """Each API server has writers in a namespace of their own."""
    etcd = breakable.etcd
    flags = (JSON_STORAGE, NO_COMPACTION)
    apis = [breakable.api, *[await asyncio.to_thread(start_kube_apiserver, etcd, *flags) for _ in namespaces[1:]]]
    file = tmp_path / "deltas.ndjson"
    async with Line(*(api.port for api in apis)) as line, KubeClient(apis[0]) as kube, made(kube, namespaces):
        began = await asyncio.to_thread(etcd.revision)
        bridge = BridgeProcess(tmp_path / "bridge", config(apis, line, namespaces, file, tmp_path))
        async with bridge.started():
            async with AsyncExitStack() as writers:
                for api, namespace in zip(apis, namespaces, strict=True):
                    await writers.enter_async_context(churning(api, namespace, writers=2))
                for number, api in enumerate(apis):
                    await asyncio.to_thread(api.kill9 if number == 1 else api.stop)
                    await asyncio.sleep(1)  # Others serve meanwhile.
                    await asyncio.to_thread(api.start)
            markers = [
                await kube.create(f"/api/v1/namespaces/{namespace}/{kind}", an_object(kind, "marker"))
                for namespace in namespaces
                for kind in KINDS
            ]
            uids = {marker["metadata"]["uid"] for marker in markers}
            await bridge.until(
                "the last changes are reported", lambda _: uids <= {each.uid for each in received(file)}, 120
            )
            metrics = await bridge.until_delivered()
        prefixes = [f"{kind}/{namespace}/" for kind in KINDS for namespace in namespaces]
        ended = await asyncio.to_thread(etcd.revision)
        happened = await history(etcd, *prefixes, since=began + 1, through=ended)

    [verdict] = judge_all({"copy": received(file)}, happened).values()
    assert {each.epoch for each in received(file)} == {1}
    assert metrics.value("history_proofs_total", outcome="other") == 0
    assert metrics.value("history_proofs_total", outcome="same") >= len(apis), "each restart broke watches"
    assert len({*line.served}) == len(apis)
    print(
        f"{len(apis)} API servers restarted, {len(namespaces) * len(KINDS)} informers: {verdict.versions} versions; "
        f"proofs: {metrics.value('history_proofs_total', outcome='same'):.0f} same, "
        f"{metrics.value('history_proofs_total', outcome='unknown'):.0f} unknown, "
        f"{metrics.value('history_proofs_total', outcome='failed'):.0f} failed, 0 other; "
        f"{metrics.value('reflector_watches_total'):.0f} watches, "
        f"{metrics.value('reflector_relists_total'):.0f} relists"
    )


def received(file: Path) -> list[Received]:
    return received_lists(from_file(file))


@asynccontextmanager
async def made(kube: KubeClient, namespaces: Sequence[str]) -> AsyncIterator[None]:
    for namespace in namespaces:
        await kube.create_namespace(namespace)
    yield
    for namespace in namespaces:
        await kube.delete_namespace(namespace)


def config(
    apis: Sequence[KubeApiServer], line: Line, namespaces: Sequence[str], file: Path, folder: Path
) -> dict[str, object]:
    """Each API server has made a certificate of its own, for this address."""
    bundle = folder / "all.crt"
    bundle.write_text("".join(api.ca_file.read_text() for api in apis))
    kubeconfig = apis[0].kubeconfig(folder / "kubeconfig")
    text = kubeconfig.read_text().replace(apis[0].url, f"https://127.0.0.1:{line.port}")
    kubeconfig.write_text(text.replace(str(apis[0].ca_file), str(bundle)))
    return {
        "cluster": {"name": "testbed", "kubeconfig": str(kubeconfig)},
        "resources": [{"resource": kind, "namespaces": list(namespaces)} for kind in KINDS],
        "sinks": {"copy": {"type": "file", "path": str(file)}},
    }
