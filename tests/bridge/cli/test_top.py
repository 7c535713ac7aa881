"""``kubedelta top``: rates, order, narrow terminals, keys."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge.app.admin.server import AdminServer
from bridge.app.endpoints import WebServer
from bridge.cli.exits import Exit
from bridge.cli.top import summary_line, table_lines
from bridge.cli.top_figures import Answer, Counts, Figures, Order, figures_of, resource_table, sink_table, summary
from bridge.model.admin import About
from bridge.model.change import Op
from bridge.model.primitives.network import host_and_port
from bridge.model.resource import Scope
from bridge.model.status import BridgeStatus, CircuitState, InformerState, InformerStatus, SinkState, SinkStatus
from bridge.telemetry.facts.delivery import BatchCommitted
from bridge.telemetry.metrics import Metrics
from tests.bridge.cli.conftest import Command
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY
from tests.kit.fake_admin import FakeAdmin
from tests.kit.records import PODS

REFUSED = "no acknowledgement within 3 s: 127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092: Connection refused"
EVIL = "\x1b]0;owned\x07\n\u202e"


def an_informer(resource: str, state: InformerState = InformerState.LIVE, **further: Any) -> InformerStatus:
    live = state is InformerState.LIVE
    return InformerStatus(resource=resource, scope="all", state=state, synced=live, live=live, **further)


def a_sink(name: str, state: SinkState = SinkState.IDLE, **further: Any) -> SinkStatus:
    return SinkStatus(name=name, type="kafka", state=state, **further)


STATUS = BridgeStatus(
    informers=(
        an_informer("pods", objects=20, queued=3),
        an_informer("pods", InformerState.REFUSED, objects=4, reason="forbidden in shop"),
        an_informer("deployments.apps", objects=7),
    ),
    sinks=(
        a_sink("audit", delivered=90),
        a_sink("hook", SinkState.WAITING, backlog_records=40, backlog_seconds=75.0, last_error="no route to host"),
    ),
)


def figures(status: BridgeStatus = STATUS, **committed: float) -> Figures:
    return figures_of(Answer(0.0, status, Counts(committed)), None)


def column(table: Any, number: int = 0) -> list[str]:
    return [row[number].text for row in table.rows]


def test_rates_are_of_the_time_between_two_answers() -> None:
    later = BridgeStatus(informers=STATUS.informers, sinks=(a_sink("audit", delivered=190), a_sink("hook")))
    found = figures_of(
        Answer(14.0, later, Counts({"pods": 60.0, "deployments.apps": 5.0}, {"pods": 2.0}, {"hook": 7.0})),
        Answer(10.0, STATUS, Counts({"pods": 20.0, "deployments.apps": 9.0})),
    )
    assert {each.name: each.rate for each in found.resources} == {"pods": 10.0, "deployments.apps": None}
    assert [each.rate for each in found.sinks] == [25.0, 0.0], "a sink from the start on has a rate"
    assert [each.retries for each in found.sinks] == [0, 7]
    assert [each.errors for each in found.resources] == [2, 0]


def test_a_resource_is_as_well_as_its_worst_scope_also_without_metrics() -> None:
    found = figures_of(Answer(1.0, STATUS, None), Answer(0.0, STATUS, None))
    pods, deployments = found.resources
    assert (pods.state, pods.objects, pods.queued, pods.reason) == (InformerState.REFUSED, 24, 3, "forbidden in shop")
    assert (pods.rate, pods.errors, deployments.rate, deployments.errors) == (None,) * 4
    assert [each.rate for each in found.sinks] == [0.0, 0.0]


def test_counters_are_read_from_the_exposition() -> None:
    metrics = Metrics(version="0", failures={})
    metrics.expect_sinks("audit")
    metrics.observe(BatchCommitted(PODS, Scope(), bytes=50, ops={Op.ADDED: 3, Op.UPDATED: 2}))
    text = metrics.render(BridgeStatus(informers=(), sinks=()), "")[0].decode()
    assert Counts.parsed(text) == Counts({"pods": 5.0}, {"pods": 0.0}, {"audit": 0.0})


def test_rows_are_in_the_chosen_order() -> None:
    found = figures()
    assert column(resource_table(found, Order.NAME)) == ["deployments.apps", "pods"]
    assert column(resource_table(found, Order.ERRORS)) == ["pods", "deployments.apps"]
    assert column(sink_table(found, Order.NAME)) == ["audit", "hook"]
    for order in (Order.LAG, Order.ERRORS):
        assert column(sink_table(found, order)) == ["hook", "audit"]
    orders = [Order.NAME]
    for _ in Order:
        orders.append(orders[-1].next())
    assert orders[-1] == Order.NAME
    assert set(orders) == set(Order)


@pytest.mark.parametrize("state", [SinkState.OPENING, SinkState.DELIVERING, SinkState.IDLE])
@pytest.mark.parametrize("failure", [{"last_error": REFUSED}, {"circuit": CircuitState.HALF_OPEN}])
def test_a_sink_fails_also_during_an_attempt(state: SinkState, failure: dict[str, Any]) -> None:
    status = BridgeStatus(informers=(), sinks=(a_sink("audit", state, backlog_records=3, **failure),))
    table = sink_table(figures(status), Order.NAME)
    assert (table.rows[0][1].text, table.rows[0][1].style) == ("failing", "red")
    if "last_error" in failure:
        for width in (80, 100):
            assert table_lines(table, width, None)[1].plain.endswith("Connection refused")


@pytest.mark.parametrize("width", [20, 30, 44, 60, 80, 120])
def test_lines_fit_a_narrow_terminal(width: int) -> None:
    found = figures()
    for table in (resource_table(found, Order.NAME), sink_table(found, Order.NAME)):
        lines = [line.plain for line in table_lines(table, width, None)]
        assert max(map(len, lines)) <= max(width, 36), lines
        assert lines[0].split()[:2] == [table.columns[0].name, "STATE"]
    assert summary_line(summary(STATUS, found), width).cell_len <= width


def test_the_first_line_has_the_first_trouble() -> None:
    line = summary_line(summary(STATUS, figures()), None).plain
    assert line.startswith(
        "not ready · resources.pods: the API server refuses the bridge (all): forbidden in shop (and 1"
    )
    assert "more: kubedelta status" in line
    well = BridgeStatus(informers=(an_informer("pods"),), sinks=(a_sink("audit"),))
    assert summary_line(summary(well, figures(well)), None).plain.startswith("ready · no rates yet")


def test_rows_beyond_the_terminal_are_counted() -> None:
    many = BridgeStatus(informers=(), sinks=tuple(a_sink(f"sink-{number}") for number in range(9)))
    lines = [line.plain for line in table_lines(sink_table(figures(many), Order.NAME), 80, 5)]
    assert len(lines) == 5
    assert lines[-1] == "and 6 more"


def test_names_cannot_control_the_terminal() -> None:
    evil = BridgeStatus(
        informers=(an_informer(EVIL, InformerState.REFUSED, reason=EVIL),),
        sinks=(SinkStatus(name=EVIL, type=EVIL, state=SinkState.WAITING, last_error=EVIL),),
        intake_blocked=EVIL,
    )
    found = figures(evil)
    tables = [resource_table(found, Order.NAME), sink_table(found, Order.NAME)]
    shown = [line.plain for table in tables for line in table_lines(table, None, None)]
    for line in [*shown, summary_line(summary(evil, found), None).plain]:
        assert line.isprintable()


# ── The command ──────────────────────────────────────────────────────────────


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return a_config(tmp_path)


@pytest.fixture
async def bridge(config: Path) -> AsyncIterator[FakeAdmin]:
    """A running bridge, as far as ``top`` sees it."""
    metrics = Metrics(version="0", failures={})
    metrics.observe(BatchCommitted(PODS, Scope(), bytes=50, ops={Op.ADDED: 3, Op.UPDATED: 2}))
    admin = FakeAdmin()
    admin.status_snapshot = STATUS
    async with WebServer("127.0.0.1", 0, status=lambda: STATUS, alive=lambda: True, metrics=metrics.render) as web:
        about = About(listen=host_and_port("127.0.0.1", web.port))
        async with AdminServer(config.parent / "state", admin, about=about):
            yield admin


async def test_one_table_is_printed_for_a_pipe(command: Command, config: Path, bridge: FakeAdmin) -> None:
    for words in (["--once"], []):
        ended = await command("top", "-c", str(config), "--interval", "10ms", "--sort", "errors", *words)
        assert (ended.code, ended.err) == (Exit.OK, "")
        rows = [line.split() for line in ended.out.splitlines()]
        assert rows[3][:5] == ["pods", "refused", "0.0", "24", "3"]
        assert rows[4][:3] == ["deployments.apps", "live", "-"]
        assert [row[0] for row in rows[7:]] == ["hook", "audit"]
        assert "\x1b" not in ended.out


async def test_without_a_bridge_it_says_so(command: Command, config: Path) -> None:
    ended = await command("top", "-c", str(config), "--once")
    assert (ended.code, ended.out) == (Exit.UNAVAILABLE, "")
    assert "no bridge runs here" in ended.err


async def test_keys_sort_and_quit_and_the_terminal_is_restored(config: Path, bridge: FakeAdmin) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bridge", "top", "-c", str(config), "--interval", "60s"]
    environ = os.environ | {"TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100", "LINES": "30"}
    process = await asyncio.create_subprocess_exec(
        *command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=environ, start_new_session=True
    )
    os.close(theirs)
    shown = bytearray()
    news = asyncio.Event()

    def read() -> None:
        try:
            shown.extend(os.read(ours, 65536))
        except OSError:  # The other end is closed.
            asyncio.get_running_loop().remove_reader(ours)
        news.set()

    async def until(text: bytes) -> None:
        while text not in shown:
            news.clear()
            await news.wait()

    asyncio.get_running_loop().add_reader(ours, read)
    try:
        async with asyncio.timeout(60 * BUSY):
            await until(b"now by name")
            await until(b"no route to host")
            os.write(ours, b"\x1b[A")  # An arrow is no key of ours.
            os.write(ours, b"s")
            await until(b"now by rate")
            os.write(ours, b"q")
            assert await process.wait() == Exit.OK, process.stderr and await process.stderr.read()
            await until(b"\x1b[?1049l")
        assert b"\x1b[3" not in shown, "NO_COLOR"
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
