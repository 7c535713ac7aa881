"""Which shard a bridge has, and the options that other bridges beside it exclude."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bridge.cli.settings import load_settings
from bridge.model.primitives.shard import Shard, ShardBy
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import preflight


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def plan(folder: Path, shard: dict[str, Any] | None, sink: dict[str, Any] | None = None) -> Plan:
    config = {
        "cluster": {"name": "c", "server": "http://127.0.0.1:1"},
        "resources": ["pods"],
        "sinks": {"audit": sink or {"type": "file", "path": "audit.ndjson"}},
    }
    (folder / "k.yaml").write_text(yaml.safe_dump(config if shard is None else {**config, "shard": shard}))
    return plan_of(load_settings(folder / "k.yaml"))


def mistakes(made: Plan) -> dict[str, str]:
    return dict(preflight(made))


def test_without_the_section_a_bridge_has_all_objects(folder: Path) -> None:
    made = plan(folder, None)

    assert (made.shard, made.unknown_shard) == (None, "")


def test_an_index_of_the_configuration_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "kubedelta-1")

    assert plan(folder, {"of": 4, "index": 2, "by": "namespace"}).shard == Shard(4, 2, ShardBy.NAMESPACE)


@pytest.mark.parametrize(("pod", "index"), [("kubedelta-2", 2), ("kubedelta-6", 2), ("a-b-0", 0)])
def test_else_the_ordinal_of_the_pod_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pod: str, index: int
) -> None:
    monkeypatch.setenv("POD_NAME", pod)

    assert plan(folder, {"of": 4}).shard == Shard(4, index)


def test_without_a_pod_name_the_name_of_the_host_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    monkeypatch.setattr("socket.gethostname", lambda: "kubedelta-3")

    assert plan(folder, {"of": 4}).shard == Shard(4, 3)


@pytest.mark.parametrize("pod", ["kubedelta-7d9f6b5c4-x2k9p", "laptop", "a-12345678901"])
def test_a_pod_without_an_ordinal_is_a_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch, pod: str) -> None:
    monkeypatch.setenv("POD_NAME", pod)

    reason = mistakes(plan(folder, {"of": 4}))["shard.index"]

    assert pod in reason
    assert "KUBEDELTA__SHARD__INDEX" in reason


def test_an_index_beyond_the_shards_is_a_mistake(folder: Path) -> None:
    assert mistakes(plan(folder, {"of": 4, "index": 4})) == {"shard.index": "found 4; allowed with shard.of 4: 0 to 3"}


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
def test_options_that_need_one_writer_are_refused(folder: Path, sink: dict[str, Any], by: str, option: str) -> None:
    found = mistakes(plan(folder, {"of": 2, "index": 0, "by": by}, sink))

    assert f"sinks.audit.{option}" in found
    assert not mistakes(plan(folder, None, sink)), "without shards, all of them are right"


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
def test_other_options_go_with_shards(folder: Path, sink: dict[str, Any], by: str) -> None:
    assert not mistakes(plan(folder, {"of": 2, "index": 0, "by": by}, sink))
