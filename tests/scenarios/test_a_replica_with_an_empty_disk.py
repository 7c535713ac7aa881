"""A replica with an empty disk joins under load: it copies the leader's state over HTTPS, and leads when the leader is
killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cluster.servers.ports import reserve_port
from tests.kit.bridge_process import BridgeProcess
from tests.kit.certificates import Authority
from tests.kit.churn import churning
from tests.kit.scene import Scene
from tests.scenarios.test_two_replicas import SHORT, JudgedReplicas, config_of

pytestmark = pytest.mark.long


def with_copies(scene: Scene, name: str, authority: Authority, token: Path) -> BridgeProcess:
    certificate = authority.issue(name)
    copies = {
        "listen": f"127.0.0.1:{reserve_port()}",
        "token_file": str(token),
        "cert_file": str(certificate.certificate),
        "key_file": str(certificate.key),
        "ca_file": str(authority.certificate),
    }
    return BridgeProcess(scene.folder / name, config_of(scene, name, {**SHORT, "base_copy": copies}))


async def test_a_replica_begins_with_a_copy_and_takes_over(scene: Scene) -> None:
    token = scene.folder / "copy-token"
    token.write_text("a-token-of-some-length")
    authority = Authority.make(scene.folder / "authority")
    first, joining = (with_copies(scene, name, authority, token) for name in ("pod-0", "pod-1"))
    run = JudgedReplicas(scene, [first, joining])
    async with first.started(), churning(scene.servers.api, scene.namespace, seed=4, pause=0.1) as churn:
        assert await run.leader() is first
        await churn.until_made(40)
        async with joining.started():
            assert joining.logged("the state begins as a copy of the leader's")
            assert (await joining.metrics()).value("reflector_lists_total") == 0, "it goes on where the leader watched"
            await churn.until_made(40)
            await run.until_in_sync(first)
            await asyncio.to_thread(first.kill9)
            assert await run.leader(other_than=first) is joining
            await churn.until_made(40)
            churn.stop()
            await run.until_received()
            await asyncio.to_thread(first.start)
    print(f"again: {await run.judged()}")
