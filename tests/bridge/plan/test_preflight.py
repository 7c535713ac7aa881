"""Which shard a bridge has, and options that no retry could mend: those that other bridges exclude, and durations under
which two replicas could deliver at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.model.primitives.shard import Shard, ShardBy
from bridge.plan.plan import Plan
from bridge.plan.preflight import preflight
from tests.kit.configurations import a_plan


def a_shard(folder: Path, shard: dict[str, Any], sink: dict[str, Any] | None = None) -> Plan:
    return a_plan(folder, shard=shard, **({} if sink is None else {"sinks": {"audit": sink}}))


def mistakes(made: Plan) -> dict[str, str]:
    return dict(preflight(made))


def test_an_index_of_the_configuration_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "kubedelta-1")

    assert a_shard(tmp_path, {"of": 4, "index": 2, "by": "namespace"}).shard == Shard(4, 2, ShardBy.NAMESPACE)


@pytest.mark.parametrize(("pod", "index"), [("kubedelta-2", 2), ("kubedelta-6", 2), ("a-b-0", 0)])
def test_else_the_ordinal_of_the_pod_counts_or_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: str, index: int
) -> None:
    monkeypatch.setenv("POD_NAME", pod)
    assert a_shard(tmp_path, {"of": 4}).shard == Shard(4, index)
    monkeypatch.delenv("POD_NAME")
    monkeypatch.setattr("socket.gethostname", lambda: pod)
    assert a_shard(tmp_path, {"of": 4}).shard == Shard(4, index)


@pytest.mark.parametrize("pod", ["kubedelta-7d9f6b5c4-x2k9p", "laptop", "a-12345678901"])
def test_a_pod_without_an_ordinal_is_a_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod: str) -> None:
    monkeypatch.setenv("POD_NAME", pod)

    reason = mistakes(a_shard(tmp_path, {"of": 4}))["shard.index"]

    assert pod in reason
    assert "KUBEDELTA__SHARD__INDEX" in reason


def test_an_index_beyond_the_shards_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(a_shard(tmp_path, {"of": 4, "index": 4})) == {
        "shard.index": "found 4; allowed with shard.of 4: 0 to 3"
    }


KAFKA = {"type": "kafka", "bootstrap_servers": "127.0.0.1:1"}
NATS = {"type": "nats", "servers": ["nats://127.0.0.1:1"], "stream": "K8S"}


@pytest.mark.parametrize(
    ("sink", "by", "option"),
    [
        ({**NATS}, "uid", "sole_writer"),
        ({**NATS}, "namespace", "sole_writer"),
        ({**NATS, "sole_writer": False, "state": "s"}, "uid", "state"),
        ({**KAFKA, "state_topic": "s.{resource}"}, "uid", "state_topic"),
        ({**KAFKA, "tombstones": True}, "uid", "tombstones"),
        ({**KAFKA, "format": "row"}, "uid", "format"),
    ],
)
def test_options_that_need_one_writer_are_refused(tmp_path: Path, sink: dict[str, Any], by: str, option: str) -> None:
    found = mistakes(a_shard(tmp_path, {"of": 2, "index": 0, "by": by}, sink))

    assert f"sinks.audit.{option}" in found
    alone = a_plan(tmp_path, sinks={"audit": sink})
    assert (alone.shard, mistakes(alone)) == (None, {}), "without shards, all of them are right"


@pytest.mark.parametrize(
    ("sink", "by"),
    [
        ({**NATS, "sole_writer": False}, "uid"),
        ({**NATS, "sole_writer": False, "state": "s"}, "namespace"),
        ({"type": "nats", "servers": ["nats://127.0.0.1:1"], "mode": "core"}, "uid"),
        ({**KAFKA, "state_topic": "s.{resource}", "key": "uid"}, "uid"),
        ({**KAFKA, "state_topic": "s.{resource}", "tombstones": True}, "namespace"),
        ({**KAFKA, "format": "row"}, "namespace"),
    ],
)
def test_other_options_go_with_shards(tmp_path: Path, sink: dict[str, Any], by: str) -> None:
    assert not mistakes(a_shard(tmp_path, {"of": 2, "index": 0, "by": by}, sink))


@pytest.mark.parametrize(
    ("lease_duration", "renew_deadline", "retry_period", "wrong"),
    [
        ("15s", "10s", "2s", []),
        ("15s", "10s", "8.3s", []),
        ("3s", "2s", "300ms", []),
        ("15s", "10.1s", "2s", ["election.renew_deadline"]),
        ("15s", "10s", "8.4s", ["election.retry_period"]),
        ("15s", "10s", "30s", ["election.retry_period"]),
        ("15s", "20s", "2s", ["election.renew_deadline"]),
        ("15s", "14s", "14s", ["election.renew_deadline", "election.retry_period"]),
    ],
)
def test_the_deadline_is_between_two_attempts_and_the_lease(
    tmp_path: Path, lease_duration: str, renew_deadline: str, retry_period: str, wrong: list[str]
) -> None:
    (tmp_path / "key").write_text("k" * 64)
    times = {"lease_duration": lease_duration, "renew_deadline": renew_deadline, "retry_period": retry_period}
    election = {"enabled": True, "namespace": "apps", **times}
    plan = a_plan(tmp_path, election=election, redaction={"key_file": str(tmp_path / "key")})
    assert list(mistakes(plan)) == wrong
