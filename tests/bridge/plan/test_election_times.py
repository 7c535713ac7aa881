"""Durations under which two replicas could deliver at the same time are refused before the start."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bridge.cli.exits import Exit
from bridge.cli.settings import load_settings
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import preflight
from tests.kit.commands import in_a_process


def a_config(folder: Path, lease_duration: str, renew_deadline: str, retry_period: str) -> Path:
    (folder / "key").write_text("k" * 64)
    times = {"lease_duration": lease_duration, "renew_deadline": renew_deadline, "retry_period": retry_period}
    config = {
        "cluster": {"name": "c", "server": "http://127.0.0.1:1"},
        "resources": ["pods"],
        "sinks": {"audit": {"type": "file", "path": str(folder / "audit.ndjson")}},
        "state": {"directory": str(folder)},
        "election": {"enabled": True, "namespace": "apps", **times},
        "redaction": {"key_file": str(folder / "key")},
    }
    (folder / "k.yaml").write_text(yaml.safe_dump(config))
    return folder / "k.yaml"


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
    plan = plan_of(load_settings(a_config(tmp_path, lease_duration, renew_deadline, retry_period)))

    assert [path for path, _ in preflight(plan)] == wrong


def test_a_bridge_with_other_durations_says_so_and_exits_78(tmp_path: Path) -> None:
    ended = in_a_process("run", "-c", str(a_config(tmp_path, "15s", "14s", "14s")))

    assert ended.code == Exit.CONFIG
    assert "election.renew_deadline: found 14 s; allowed: at most two thirds of" in ended.err
    assert "election.retry_period: found 14 s; allowed: less than election.renew_deadline divided by 1.2" in ended.err
