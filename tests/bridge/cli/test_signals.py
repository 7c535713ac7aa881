"""What signals do to a real process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from bridge.playground import Playground
from tests.kit.bridge_process import BridgeProcess
from tests.kit.deadlines import BUSY, until
from tests.kit.fork_server import Forked, fork_server
from tests.kit.webhook_receiver import Answer, WebhookReceiver

GRACE = 3000
"""Seconds; whoever waits for its end fails by a timeout of the test."""


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


def test_a_signal_wakes_up_a_loop_that_is_about_to_wait() -> None:
    """Otherwise it is handled with the loop's next event, which may never come (signal(7): handlers run in Python only
    between two instructions)."""
    code = (
        "import asyncio, signal; from bridge.cli.process import handle_signals\n"
        "async def main(): handle_signals(print); print(signal.set_wakeup_fd(-1))\n"
        "asyncio.run(main())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(found.stdout) >= 0


async def _ended(bridge: BridgeProcess, timeout: float = 30 * BUSY) -> int:
    process = bridge._launched()
    return await asyncio.to_thread(process.wait, timeout)


async def _until_logged(bridge: BridgeProcess, *words: str) -> None:
    await until(lambda: bridge.logged(*words))


async def test_signals_without_a_meaning_are_logged_and_ignored(make: Any, tmp_path: Path) -> None:
    bridge = make({"copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson")}})
    async with bridge.started():
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            bridge._launched().send_signal(number)
            await _until_logged(bridge, "ignored", number.name)
        await bridge.until_delivered()


async def test_sighup_reads_the_configuration_again(make: Any, tmp_path: Path) -> None:
    copy = {"type": "file", "path": str(tmp_path / "deltas.ndjson")}
    bridge = make({"copy": copy})
    async with bridge.started():
        bridge._launched().send_signal(signal.SIGHUP)
        await _until_logged(bridge, "no option has another value", "SIGHUP")
        other = {"late": {"type": "file", "path": str(tmp_path / "late.ndjson")}}
        bridge.reconfigure(sinks={"copy": copy, **other}, telemetry={"log_level": "debug"})
        bridge._launched().send_signal(signal.SIGHUP)
        await _until_logged(bridge, "the changed configuration is in effect", "sinks.late: added")
        await bridge.until_delivered("copy", "late")
        await _until_logged(bridge, '"debug"')
        assert "[+] sink late" in await bridge.readiness()
        found = await bridge.metrics()
        assert found.value("config_last_reload_successful") == 1
        assert found.value("config_reloads_total", outcome="changed") == 1


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
async def test_a_second_signal_ends_at_once(
    make: Any, receiver: WebhookReceiver, second: signal.Signals, code: int
) -> None:
    never = asyncio.Event()
    receiver.answer = lambda posted: Answer(wait=never)
    bridge = make({"hook": {"type": "webhook", "url": receiver.url}})
    await asyncio.to_thread(bridge.start)
    await until(lambda: receiver.asked)
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
    await asyncio.to_thread(bridge.stop)
    assert bridge.logged("delivered after the next start", '"sink":"hook"')


async def test_a_sink_whose_next_attempt_comes_within_the_grace_has_it(make: Any, receiver: WebhookReceiver) -> None:
    receiver.answer = lambda posted: Answer(503, {"Retry-After": "1"}) if not receiver.accepted else Answer()
    bridge = make({"hook": {"type": "webhook", "url": receiver.url}})
    await asyncio.to_thread(bridge.start)
    await _until_logged(bridge, "delivery failed")
    bridge._launched().send_signal(signal.SIGTERM)
    await _until_logged(bridge, "stopping:")
    receiver.answer = lambda posted: Answer()
    assert await _ended(bridge) == 0
    assert any(event["subject"].endswith("/a") for event in receiver.events)
    assert not bridge.logged("delivered after the next start")


@contextmanager
def a_demo(temporary: Path) -> Iterator[tuple[Forked, BinaryIO]]:
    """With its standard output."""
    reading, writing = os.pipe()
    demo = fork_server().start(["demo", "--rate", "1"], writing, 2, environ={"TMPDIR": str(temporary)})
    os.close(writing)
    with os.fdopen(reading, "rb") as output:
        try:
            yield demo, output
        finally:
            demo.kill()


def test_a_second_ctrl_c_ends_a_demo_at_once_and_leaves_no_files(tmp_path: Path) -> None:
    with a_demo(tmp_path) as (demo, output):
        output.readline()
        demo.send_signal(signal.SIGINT)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(30 * BUSY) in (0, 130)
    assert list(tmp_path.iterdir()) == []


def test_a_demo_whose_terminal_is_gone_ends_and_leaves_no_files(tmp_path: Path) -> None:
    with a_demo(tmp_path) as (demo, output):
        output.readline()
        demo.send_signal(signal.SIGHUP)
        output.read()
        assert demo.wait(30 * BUSY) == 0
    assert list(tmp_path.iterdir()) == []
