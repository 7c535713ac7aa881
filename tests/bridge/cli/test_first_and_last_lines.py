"""The log of a real process off a terminal: JSON from the first line to the last, whatever ends it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.model.policies import StartPolicy
from bridge.outbox import Outbox
from bridge.playground import Playground
from bridge.telemetry.facts import discard
from tests.kit.bridge_process import BridgeProcess
from tests.kit.commands import in_a_process
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server


def logged(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and the lines of standard error: every one of them is JSON."""
    ended = in_a_process("run", "-c", str(path))
    return ended.code, [json.loads(line) for line in ended.err.splitlines()]


def test_an_unusable_file_gives_a_line_for_each_mistake_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_config(tmp_path, resorces=["pods"], watch={"silence_secnds": 3})
    assert main(["run", "-c", str(path)]) == Exit.CONFIG
    *problems, last = lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {line["level"] for line in lines} == {"error"}
    words = [["resorces", "resources"], ["watch.silence_secnds", "silence_seconds"]]
    assert all(word in line["problem"] for line, names in zip(problems, words, strict=True) for word in names)
    assert {line["configuration"] for line in problems} == {str(path)}
    assert (last["event"], last["exit_code"]) == ("ended", Exit.CONFIG)
    assert not (tmp_path / "deltas.ndjson").exists()


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"telemetry": {"listen": "127.0.0.1:0", "details_token_file": "missing"}},
            "telemetry.details_token_file: cannot read",
        ),
        ({"page": {"listen": "127.0.0.1:0", "token_file": "token"}}, "has 15 characters; allowed: at least 16"),
    ],
    ids=["a missing file", "a short token"],
)
def test_a_named_file_that_does_not_serve_is_a_configuration_mistake(
    tmp_path: Path, sections: dict[str, Any], said: str
) -> None:
    (tmp_path / "token").write_text("fifteen-letters")
    code, (problem, last) = logged(a_config(tmp_path, **sections))
    assert (code, last["exit_code"]) == (Exit.CONFIG, Exit.CONFIG)
    assert said in problem["problem"]
    assert "fifteen-letters" not in str(problem)


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        ({"cluster": {"name": "test", "kubeconfig": "missing"}}, "cluster.kubeconfig: "),
        ({"telemetry": {"listen": "203.0.113.1:1"}}, "telemetry.listen: cannot listen on 203.0.113.1:1"),
        ({"state": {"directory": "missing"}}, "state.directory"),
    ],
    ids=["no cluster", "no address", "no state"],
)
def test_what_is_fatal_is_the_last_line(tmp_path: Path, sections: dict[str, Any], reason: str) -> None:
    code, lines = logged(a_config(tmp_path, **sections))
    first, last = lines[0], lines[-1]
    assert code == Exit.CONFIG
    assert first["event"] == "started"
    assert (last["event"], last["level"], last["exit_code"]) == ("ended", "error", Exit.CONFIG)
    assert last["reason"].startswith(reason)


async def test_what_is_left_for_each_sink_and_what_an_operator_asked_is_in_the_log(tmp_path: Path) -> None:
    async with Playground() as cluster:
        for name in "abc":
            cluster.create("configmaps", {"metadata": {"name": name, "namespace": "default"}})
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": {
                "copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson"), "start": "earliest"},
                "hook": {"type": "webhook", "url": "http://127.0.0.1:1/", "start": "earliest"},
            },
            "shutdown_grace_seconds": 0.5,
        }
        bridge = BridgeProcess(tmp_path / "bridge", config)
        async with bridge.started():
            await bridge.until_delivered("copy")
            with (tmp_path / "cursors").open("wb") as out:
                words = ["cursors", "-c", str(bridge.config)]
                asking = fork_server().start(words, out.fileno(), out.fileno(), environ=bridge.environ())
            assert await asyncio.to_thread(asking.wait, 60 * BUSY) == 0
    lines = [json.loads(line) for line in bridge.log.read_text().splitlines()]
    first, *_, last = lines
    assert first["event"] == "started"
    assert (last["event"], last["reason"], last["exit_code"]) == ("ended", "SIGTERM", 0)
    assert last["backlog"]["copy"] == 0
    assert last["backlog"]["hook"] >= 3
    delayed = [line for line in lines if line["event"] == "delivery failed"]
    assert delayed[-1]["backlog_records"] > 0
    assert not [line for line in lines if line["event"].startswith("sink delivers") and line["sink"] == "hook"]
    [asked] = [line for line in lines if "operator's command" in line["event"]]
    assert (asked["command"], asked["result"]) == ("cursors", "2 sinks")
    assert (asked["uid"], asked["pid"]) == (os.getuid(), asking.pid)


async def test_a_second_bridge_on_one_state_says_so_in_its_last_line(tmp_path: Path) -> None:
    config = a_config(tmp_path)
    async with await Outbox.open(tmp_path / "state", {"copy": StartPolicy.NOW}, report=discard):
        code, lines = logged(config)
    assert code == Exit.CONFIG
    assert str(tmp_path) in lines[-1]["reason"]
