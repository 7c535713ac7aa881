"""What signals do to a real process."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.playground import Playground
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY
from tests.kit.webhook_receiver import Answer, WebhookReceiver

GRACE = 300
"""Seconds; whoever waits for its end fails by the test's own timeout."""


@pytest.fixture
async def cluster() -> AsyncIterator[Playground]:
    async with Playground() as running:
        running.create("configmaps", {"metadata": {"name": "a", "namespace": "default"}})
        yield running


@pytest.fixture
def killed() -> Iterator[list[BridgeProcess]]:
    """Whatever the test leaves running."""
    bridges: list[BridgeProcess] = []
    yield bridges
    for bridge in bridges:
        bridge.kill9()


@pytest.fixture
def make(tmp_path: Path, cluster: Playground, killed: list[BridgeProcess]) -> Any:
    def made(sinks: Mapping[str, Any]) -> BridgeProcess:
        config = {
            "cluster": {"name": "playground", "server": cluster.url},
            "resources": ["configmaps"],
            "sinks": dict(sinks),
            "shutdown_grace_seconds": GRACE,
        }
        bridge = BridgeProcess(tmp_path / "bridge", config)
        killed.append(bridge)
        return bridge

    return made


async def _ended(bridge: BridgeProcess, timeout: float = 30) -> int:
    process = bridge._launched()
    return await asyncio.to_thread(process.wait, timeout)


async def _until_logged(bridge: BridgeProcess, *words: str) -> None:
    async with asyncio.timeout(30 * BUSY):
        while not bridge.logged(*words):  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # A file announces nothing.


async def test_signals_without_a_meaning_are_logged_and_ignored(make: Any, tmp_path: Path) -> None:
    bridge = make({"copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson")}})
    async with bridge.started():
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            bridge._launched().send_signal(number)
            await _until_logged(bridge, "ignored", number.name)
        await bridge.until_delivered()


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_second_signal_ends_at_once(
    make: Any, receiver: WebhookReceiver, second: signal.Signals, code: int
) -> None:
    never = asyncio.Event()
    receiver.answer = lambda posted: Answer(wait=never)
    bridge = make({"hook": {"type": "webhook", "url": receiver.url}})
    await asyncio.to_thread(bridge.start)
    async with asyncio.timeout(30 * BUSY):
        while not receiver.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    bridge._launched().send_signal(signal.SIGTERM)
    await _until_logged(bridge, "stopping:")
    bridge._launched().send_signal(second)
    assert await _ended(bridge) == code
    assert bridge.logged("ending at once", second.name)
    never.set()


async def test_a_sink_whose_next_attempt_is_after_the_grace_is_left(make: Any, receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(503, {"Retry-After": "3600"})
    bridge = make({"hook": {"type": "webhook", "url": receiver.url}})
    await asyncio.to_thread(bridge.start)
    await _until_logged(bridge, "delivery failed")
    began = time.monotonic()
    await asyncio.to_thread(bridge.stop)
    assert time.monotonic() - began < 30, f"of a grace of {GRACE}"
    assert bridge.logged("delivered after the next start", '"sink":"hook"')


async def test_a_sink_whose_next_attempt_comes_within_the_grace_has_it(make: Any, receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(503, {"Retry-After": "3"}) if not receiver.accepted else Answer()
    bridge = make({"hook": {"type": "webhook", "url": receiver.url}})
    await asyncio.to_thread(bridge.start)
    await _until_logged(bridge, "delivery failed")
    bridge._launched().send_signal(signal.SIGTERM)
    await _until_logged(bridge, "stopping:")
    receiver.answer = lambda posted: Answer()
    assert await _ended(bridge) == 0
    assert any(event["subject"].endswith("/a") for event in receiver.events)
    assert not bridge.logged("delivered after the next start")


def test_a_second_ctrl_c_ends_a_demo_at_once_and_leaves_no_files(tmp_path: Path) -> None:
    command = ["env", f"TMPDIR={tmp_path}", sys.executable, "-m", "bridge", "demo", "--rate", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.send_signal(signal.SIGINT)
        demo.send_signal(signal.SIGINT)
        code = demo.wait(30)
        demo.stdout.read()
    assert code in (0, 130)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_whose_terminal_is_gone_ends_and_leaves_no_files(tmp_path: Path) -> None:
    command = ["env", f"TMPDIR={tmp_path}", sys.executable, "-m", "bridge", "demo", "--rate", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        demo.send_signal(signal.SIGHUP)
        demo.stdout.read()
        assert demo.wait(30) == 0
    assert list(tmp_path.iterdir()) == []
