from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from bridge.model.change import Op
from bridge.model.resource import Scope
from bridge.telemetry.facts import Fact, cluster, delivery, informer, outbox, process
from bridge.telemetry.logs import Logs, set_up_logging
from tests.bridge.telemetry.every_fact import ALL, EVERYTHING
from tests.kit.records import PODS
from tests.kit.virtual_time import StandingClock

SHOP = Scope(namespace="shop")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("kubedelta")
    before = root.handlers[:], root.level, own.level
    yield
    root.handlers[:], root.level, own.level = before
    logging.captureWarnings(False)
    structlog.reset_defaults()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().split("\n") if line]


def _written(*facts: Fact, level: str = "info") -> list[dict[str, Any]]:
    """The lines that these facts make."""
    stream = io.StringIO()
    set_up_logging(level, "json", stream)
    logs = Logs(clock=StandingClock())
    for fact in facts:
        logs.observe(fact)
    return _lines(stream)


def _logged(*facts: Fact, level: str = "info") -> list[tuple[str, str]]:
    """Level and text of each line."""
    return [(line["level"], line["event"]) for line in _written(*facts, level=level)]


# ── What is reported ─────────────────────────────────────────────────────────────


def test_a_good_day_logs_each_state_and_no_batch() -> None:
    batch: list[Fact] = [
        delivery.BatchCommitted(PODS, ALL, bytes=9, ops={Op.ADDED: 500}),
        delivery.BatchDelivered("audit", records=500, bytes=9, seconds=0.01),
    ]
    day: list[Fact] = [
        informer.ListCompleted(PODS, ALL, 3, 0.1, relist=False),
        informer.InformerSynced(PODS, ALL, 3),
        delivery.SinkOpened("audit"),
    ]
    watches: list[Fact] = [
        informer.WatchOpened(PODS, ALL),
        informer.WatchEnded(PODS, ALL, "the server's timeout", 300, 12),
    ]
    assert _logged(*day, *((watches + batch) * 50), informer.InformerStopped(PODS, ALL)) == [
        ("info", "synced"),
        ("info", "sink is set up"),
        ("info", "sink delivers"),
        ("info", "informer stopped"),
    ]


def test_batches_and_watches_are_reported_at_debug() -> None:
    committed = delivery.BatchCommitted(PODS, ALL, bytes=9, ops={Op.ADDED: 500})
    logged = _logged(
        committed, informer.WatchOpened(PODS, ALL), informer.WatchEnded(PODS, ALL, "timeout", 300, 12), level="debug"
    )
    assert logged == [("debug", "batch committed"), ("debug", "watch opened"), ("debug", "watch ended")]


def test_every_fact_is_reported_at_some_level() -> None:
    stream = io.StringIO()
    set_up_logging("debug", "json", stream)
    logs = Logs(clock=StandingClock())
    for fact in [*EVERYTHING, informer.InformerStopped(PODS, ALL)]:
        before = len(_lines(stream))
        logs.observe(fact)
        written = _lines(stream)[before:]
        assert written, fact
        assert all(line["event"] for line in written), fact


def test_a_refused_resource_is_logged_once_and_when_it_changes() -> None:
    forbidden = informer.ResourceRefused(PODS, SHOP, 403, "forbidden", 60)
    missing = informer.ResourceRefused(PODS, SHOP, 404, "not found", 60)
    served = informer.ListCompleted(PODS, SHOP, 3, 0.1, relist=False)
    logged = _logged(forbidden, forbidden, forbidden, missing, missing, served, forbidden)
    assert [level for level, _ in logged] == ["warning", "warning", "info", "warning"]
    assert '"list" and "watch"' in logged[0][1]
    assert "install its CRD" in logged[1][1]
    assert logged[2][1] == "the API server serves the resource"


def test_a_failing_watch_is_logged_each_30_s_and_at_its_end() -> None:
    clock = StandingClock()
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    logs = Logs(clock=clock)
    for _ in range(10):
        logs.observe(informer.ListWatchFailed(PODS, SHOP, "watch", "no answer from 127.0.0.1:6443", 1.25))
        clock.now += 4
    logs.observe(informer.WatchOpened(PODS, SHOP))
    first, again, end = _lines(stream)
    assert first["event"] == again["event"] == "watch failed"
    assert (first["resource"], first["scope"], first["reason"]) == (
        "pods",
        "namespace shop",
        "no answer from 127.0.0.1:6443",
    )
    assert "times" not in first
    assert again["times"] == 8
    assert end["event"] == "watch is live"


def test_a_failing_sink_is_logged_once_and_so_is_its_recovery() -> None:
    delayed = delivery.DeliveryDelayed("audit", 10, "no broker", 2.0, 76)
    delivered = delivery.BatchDelivered("audit", 10, 900, 0.1)
    assert _logged(delivery.SinkOpened("audit"), delivered, delayed, delayed, delayed, delivered, delivered) == [
        ("info", "sink is set up"),
        ("info", "sink delivers"),
        ("warning", "delivery failed"),
        ("info", "sink delivers again"),
    ]


def test_records_that_a_sink_lost_are_always_reported() -> None:
    overrun = delivery.ListenerOverrun("audit", first=3, last=9, count=7)
    dropped = delivery.BacklogDropped("audit", first=10, last=19, count=8)
    assert [level for level, _ in _logged(overrun, overrun, dropped, dropped)] == ["error"] * 4


def test_a_full_disk_is_logged_once_as_an_error_and_its_end_too() -> None:
    full = outbox.OutboxFull("database or disk is full", 1.0)
    logged = _logged(full, full, full, outbox.OutboxHasRoom(60.0), outbox.OutboxHasRoom(60.0))
    assert [level for level, _ in logged] == ["error", "info"]
    assert "no disk space for the state" in logged[0][1]


def test_a_sink_that_stops_the_intake_is_logged_by_name() -> None:
    blocked, resumed = _written(delivery.IntakeBlocked("audit", records=20), delivery.IntakeResumed("audit", 61.25))
    assert (blocked["level"], blocked["sink"], blocked["records"]) == ("error", "audit", 20)
    assert "intake blocked, for every sink, until this sink has caught up" in blocked["event"]
    assert (resumed["level"], resumed["sink"], resumed["seconds"]) == ("info", "audit", 61.2)


def test_an_outage_is_one_story_however_often_it_is_tried() -> None:
    delayed = delivery.DeliveryDelayed("audit", 10, "no broker", 2.0, 76)
    opened = delivery.CircuitOpened("audit", failures=5, reason="no broker")
    delivered = delivery.BatchDelivered("audit", 1, 9, 0.1)
    logged = _logged(
        delivered, delayed, delayed, opened, delayed, opened, delivery.CircuitClosed("audit", 60.0), delivered
    )
    assert logged == [
        ("info", "sink delivers"),
        ("warning", "delivery failed"),
        ("warning", "circuit open: deliveries failed in a row; one at a time is tried"),
        ("info", "circuit closed: deliveries succeed again"),
    ]


def test_a_circuit_that_opens_at_once_says_nothing_of_a_row() -> None:
    [(_, text)] = _logged(delivery.CircuitOpened("audit", failures=1, reason="no broker"))
    assert text == "circuit open: a delivery failed; one at a time is tried"


def test_repeated_compactions_are_logged_each_30_seconds() -> None:
    clock = StandingClock()
    stream = io.StringIO()
    set_up_logging("info", "json", stream)
    logs = Logs(clock=clock)
    for number in range(10):
        logs.observe(delivery.BacklogCompacted("audit", before=100 + number, after=40))
        clock.now += 4
    first, again = _lines(stream)
    assert (first["before"], first["after"], again["times"]) == (100, 40, 8)


def test_a_damaged_state_is_an_error_that_says_where_it_went() -> None:
    [line] = _written(outbox.OutboxRebuilt("/state/outbox.db.damaged", "malformed", ("audit",)))
    assert (line["level"], line["aside"], line["reason"]) == ("error", "/state/outbox.db.damaged", "malformed")


def test_an_unknown_resource_is_logged_once_until_it_changes() -> None:
    gone, groupless = (
        cluster.ResourceUnknown("pods", "no such resource"),
        cluster.ResourceUnknown("pods", "no such group"),
    )
    logged = _logged(gone, gone, groupless, groupless, informer.InformerSynced(PODS, ALL, 0), groupless)
    assert [level for level, _ in logged] == ["warning", "warning", "info", "warning"]


WARNINGS: tuple[Fact, ...] = (
    informer.InputUnreadable(PODS, ALL, "no metadata"),
    informer.VersionsRanBackwards(PODS, ALL, "9", "3"),
    cluster.DiscoveryFailed("no answer", 1.0),
    cluster.GroupStale("metrics.k8s.io/v1beta1", "503"),
    cluster.DiscoveryRejected("metrics.example/v1 '../secrets': a DNS label is expected"),
    cluster.ConnectionInsecure("https://10.0.0.1:6443", "its certificate is not verified"),
    delivery.SinkInsecure("hook", "url is http://"),
    delivery.RecordRejected("audit", "u/1/added", "too large"),
    delivery.StatesNotCompared("audit", "pods", "shop/web", "they have 9000000 bytes"),
    delivery.RecordsParked("audit", records=6, objects=2),
    delivery.CircuitOpened("audit", failures=5, reason="no broker"),
    delivery.BacklogCompacted("audit", before=100, after=40),
    cluster.ClusterChanged("uid-1", "uid-2"),
    cluster.ClusterUnidentified("forbidden"),
    outbox.SinkForgotten("gone", 30),
    cluster.ScopeChanged("pods", 4),
)
NOTES: tuple[Fact, ...] = (
    outbox.OutboxOpened("/state/outbox.db", "3.54.1", records=4, objects=3),
    delivery.RecordsLeftBehind("audit", 7),
    outbox.SnapshotBegan("audit", objects=3),
    outbox.SnapshotEnded("audit", objects=3),
    informer.ListCompleted(PODS, ALL, 3, 0.1, relist=True),
    outbox.SinkForgotten("gone", 0),
    cluster.ScopeChanged("pods", 0),
)


@pytest.mark.parametrize(
    ("fact", "level"), [*((each, "warning") for each in WARNINGS), *((each, "info") for each in NOTES)]
)
def test_a_failure_or_a_loss_is_a_warning_and_a_change_of_state_is_none(fact: Fact, level: str) -> None:
    assert [found for found, _ in _logged(fact)] == [level]


# ── How it is written ────────────────────────────────────────────────────────


def test_off_a_terminal_each_line_is_a_json_object() -> None:
    stream = io.StringIO()
    set_up_logging("info", "auto", stream)
    Logs().observe(delivery.SinkOpened("audit"))
    [line] = _lines(stream)
    assert list(line) == ["timestamp", "level", "event", "sink"]
    assert line["timestamp"].endswith("Z")


def test_with_a_shard_every_line_names_it() -> None:
    stream = io.StringIO()
    set_up_logging("info", "json", stream, shard="2-of-4")
    Logs().observe(delivery.SinkOpened("audit"))
    logging.getLogger("a.library").warning("careful")
    assert [line["shard"] for line in _lines(stream)] == ["2-of-4", "2-of-4"]


def test_on_a_terminal_lines_are_for_people() -> None:
    stream = Terminal()
    set_up_logging("info", "auto", stream)
    Logs().observe(delivery.SinkOpened("audit"))
    assert "sink is set up" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_json_and_console_can_be_asked_for_wherever_the_lines_go() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    set_up_logging("info", "json", terminal)
    Logs().observe(delivery.SinkOpened("audit"))
    set_up_logging("info", "console", pipe)
    Logs().observe(delivery.SinkOpened("audit"))
    assert json.loads(terminal.getvalue())["sink"] == "audit"
    assert "\x1b" not in pipe.getvalue()
    assert "sink=audit" in pipe.getvalue()


def test_libraries_are_heard_from_warning_on_in_the_same_form() -> None:
    stream = io.StringIO()
    set_up_logging("debug", "json", stream)
    library = logging.getLogger("some.library")
    library.info("chatter")
    library.warning("broker %s is slow", 3)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("an old option", DeprecationWarning, stacklevel=1)
    slow, old = _lines(stream)
    assert (slow["level"], slow["logger"], slow["event"]) == ("warning", "some.library", "broker 3 is slow")
    assert (old["level"], old["logger"]) == ("warning", "py.warnings")
    assert "an old option" in old["event"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_line_holds_a_credential_nor_a_traceback_a_variable(form: str) -> None:
    stream = io.StringIO()
    set_up_logging("info", form, stream)
    Logs().observe(
        delivery.DeliveryDelayed("hook", 1, "POST https://me:pa55w0rd@example.test/: 401, Bearer eyJ.x-y_z=", 1.0, 1)
    )
    token = "s3cr3t-token"  # in a variable of the frame that fails
    try:
        raise ValueError(f"https://{token}@example.test refused us")
    except ValueError:
        logging.getLogger("some.library").exception("it broke")
    text = stream.getvalue()
    assert "example.test" in text
    assert "ValueError" in text
    for secret in ("pa55w0rd", "eyJ", token):
        assert secret not in text


def test_a_line_cannot_be_forged_by_what_a_server_says() -> None:
    [line] = _written(cluster.DiscoveryFailed('no\n{"level":"info","event":"all is well"}\u2028', 1.0))
    assert line["level"] == "warning"


def test_set_up_twice_lines_are_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "json", sys.stderr)
    set_up_logging("info", "json", sys.stderr)
    Logs().observe(delivery.SinkOpened("audit"))
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_repeated_library_line_is_logged_each_30_seconds() -> None:
    """asyncio writes its line 128 times a second while there are no files left, each with a traceback."""
    clock = StandingClock()
    stream = io.StringIO()
    set_up_logging("info", "json", stream, clock=clock)
    for moment in range(3000):
        clock.now = moment / 100
        text = f"socket.accept() out of system resource\nsocket: <asyncio.TransportSocket fd={moment}>"
        logging.getLogger("asyncio").error(text)
        logging.getLogger("aiohttp.server").error("Error handling request from %s", f"10.0.0.{moment % 250}")
    clock.now = 31.0
    logging.getLogger("asyncio").error("socket.accept() out of system resource\nsocket: <asyncio.TransportSocket fd=1>")
    logging.getLogger("asyncio").error("something else")
    assert [(line["logger"], line["event"][:13], line.get("times")) for line in _lines(stream)] == [
        ("asyncio", "socket.accept", None),
        ("aiohttp.server", "Error handlin", None),
        ("asyncio", "socket.accept", 3000),
        ("asyncio", "something els", None),
    ]


def test_a_rejected_record_is_named_with_its_dead_letter() -> None:
    delta, notice, parked = _written(
        delivery.RecordRejected("audit", "u/1/added", "too large", 7, "pods", "shop/web"),
        delivery.RecordRejected("hook", "gap/1", "too large", 8),
        delivery.RecordsParked("audit", records=6, objects=2, total=681),
    )
    assert (delta["dead_letter"], delta["resource"], delta["object"]) == (7, "pods", "shop/web")
    assert (notice["dead_letter"], "object" in notice, "resource" in notice) == (8, False, False)
    assert parked["total"] == 681


# ── Strangers' text ──────────────────────────────────────────────────────────

HOSTILE = "\x1b[2J\x9b31m\u202egnp\u2028two\nlines\x7f"


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("stream", [io.StringIO, Terminal], ids=["a file", "a terminal"])
def test_nothing_that_a_terminal_would_obey_reaches_a_log(form: str, stream: type[io.StringIO]) -> None:
    log = stream()
    set_up_logging("info", form, log)
    logs = Logs(clock=StandingClock())
    logs.observe(informer.ListWatchFailed(PODS, ALL, "watch", HOSTILE, 1.0))
    logs.observe(delivery.RecordRejected("audit", HOSTILE, HOSTILE))
    logs.observe(cluster.ResourceUnknown(HOSTILE, HOSTILE))
    logging.getLogger("aiohttp").warning("a library says %s", HOSTILE)
    try:
        raise RuntimeError(HOSTILE)
    except RuntimeError:
        logging.getLogger("aiohttp").exception("a library failed")
    colours = "\x1b" if form == "console" and log.isatty() else ""
    left = {letter for letter in log.getvalue() if not letter.isprintable()} - {"\n", *colours}
    assert left == set()
    assert "[2J" in log.getvalue()
    assert "\x1b[2J" not in log.getvalue()
    if form == "json":
        assert _lines(log)[0]["reason"] == HOSTILE


# ── Words are true ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, "the API server accepts the bridge's credentials"),
        (403, "the bridge may list and watch the resource"),
        (404, "the API server serves the resource"),
        (405, "the resource can be listed and watched"),
        (451, "the API server serves the resource"),
    ],
)
def test_the_end_of_a_refusal_says_what_had_been_the_matter(status: int, text: str) -> None:
    logged = _logged(informer.ResourceRefused(PODS, ALL, status, "no", 60), informer.WatchOpened(PODS, ALL))
    assert logged[-1] == ("info", text)


def test_a_sink_delivers_only_once_its_destination_has_stored() -> None:
    """A webhook is set up without a request."""
    logged = _logged(delivery.SinkOpened("hook"), delivery.DeliveryDelayed("hook", 1, "cannot be reached", 1.0, 76))
    assert logged == [("info", "sink is set up"), ("warning", "delivery failed")]


def test_a_backlog_counts_also_while_its_sink_cannot_open() -> None:
    [line] = _written(delivery.DeliveryDelayed("hook", 0, "no broker", 1.0, 76))
    assert line["backlog_records"] == 76


def test_the_first_and_last_line_say_what_runs_and_why_it_ended() -> None:
    first, last = _written(
        *(fact for fact in EVERYTHING if isinstance(fact, process.BridgeStarted | process.BridgeEnded))
    )
    assert {**first, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "started",
        "version": "1.0",
        "configuration": "kubedelta.yaml",
        "cluster": "test",
        "resources": ["pods"],
        "sinks": {"audit": "kafka"},
        "address": "127.0.0.1:8080",
        "state": "/state",
    }
    assert {**last, "timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "event": "ended",
        "reason": "SIGTERM",
        "exit_code": 0,
        "seconds": 60.0,
        "backlog": {"audit": 5},
    }
