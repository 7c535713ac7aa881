"""What is made of the answers to the question which cluster this is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.kube import ClusterAccess, KubeClient, connect
from bridge.outbox import Outbox
from bridge.plan import cluster_identity
from bridge.plan.cluster_identity import identify
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.cluster import ClusterUnidentified, DiscoveryFailed
from tests.kit.playground import Playground


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>back soon</html>",
        b"{}",
        b'{"metadata": {"uid": ""}}',
        b'{"metadata": {"uid": "\xff"}}',
        b"[" * 100_000,
        b'{"metadata": {"uid": "%b"}}' % (b"u" * 300),
    ],
)
async def test_an_answer_that_is_none_is_waited_out(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, reasons = list[Fact](), list[str]()
    answers = [answer]
    get = KubeClient.get

    async def get_once_wrong(self: KubeClient, path: str) -> bytes:
        return answers.pop() if answers else await get(self, path)

    monkeypatch.setattr(KubeClient, "get", get_once_wrong)
    async with (
        Playground() as cluster,
        connect(ClusterAccess(server=cluster.url)) as client,
        await Outbox.open(tmp_path, {}, report=discard) as outbox,
    ):
        await identify(client, outbox.ledger, restart=False, report=facts.append, held_up=reasons.append)
        assert (await outbox.check()).cluster == cluster.get("namespaces", "kube-system")["metadata"]["uid"]
    [failed] = facts
    assert isinstance(failed, DiscoveryFailed)
    assert [f"namespaces/kube-system: {reason}" for reason in reasons] == [failed.reason]


async def identified(state: Path, cluster: Playground) -> list[Fact]:
    facts = list[Fact]()
    async with (
        connect(ClusterAccess(server=cluster.url)) as client,
        await Outbox.open(state, {}, report=discard) as outbox,
    ):
        await identify(client, outbox.ledger, restart=False, report=facts.append, held_up=print)
    return facts


async def test_a_refusal_after_a_successful_read_is_doubted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Playground() as cluster:
        assert await identified(tmp_path, cluster) == []
        cluster.misbehave.forbid("namespaces", times=1)
        assert [type(fact) for fact in await identified(tmp_path, cluster)] == [DiscoveryFailed]

        monkeypatch.setattr(cluster_identity, "REFUSAL_DOUBTED", 0.0)
        cluster.misbehave.forbid("namespaces")
        assert [type(fact) for fact in await identified(tmp_path, cluster)] == [ClusterUnidentified]


async def test_a_refusal_of_what_was_never_read_is_said_at_once(tmp_path: Path) -> None:
    async with Playground() as cluster:
        cluster.misbehave.forbid("namespaces")
        assert [type(fact) for fact in await identified(tmp_path, cluster)] == [ClusterUnidentified]
