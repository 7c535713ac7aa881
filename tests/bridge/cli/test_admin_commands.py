"""The commands that look after the state: what they ask, what they print, how they end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis.strategies import datetimes, timezones

from bridge.app.admin import client as admin_client
from bridge.app.admin.commands import AdminOperations
from bridge.app.admin.server import AdminServer
from bridge.app.endpoints import WebServer
from bridge.cli import admin, admin_access, main
from bridge.cli.arguments import start
from bridge.cli.exits import Exit
from bridge.model.admin import (
    About,
    Cursors,
    CursorStatus,
    DeadLetterChain,
    Reloaded,
    ReloadRequest,
    Replayed,
    ReplayRequest,
    SnapshotRequest,
    StateReport,
)
from bridge.model.status import (
    BridgeStatus,
    InformerState,
    InformerStatus,
    SinkState,
    SinkStatus,
    SnapshotState,
)
from bridge.outbox.errors import Damaged, StateUnusable
from bridge.telemetry.metrics import Metrics
from config.schema import Settings
from tests.bridge.cli.conftest import Command
from tests.kit.commands import Ended
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY
from tests.kit.fake_admin import FakeAdmin, a_dead_letter
from tests.kit.fork_server import fork_server

AdminCommand: TypeAlias = Callable[[str], Awaitable[Ended]]
"""Takes the words of a command line, without `-c`."""


@pytest.fixture
def state() -> FakeAdmin:
    return FakeAdmin()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return a_config(tmp_path, sink="hook")


@pytest.fixture
def kubedelta(config: Path, command: Command) -> AdminCommand:
    """Runs a command line with ``-c`` behind it."""
    return lambda words: command(*words.split(), "-c", str(config))


@pytest.fixture
async def running(kubedelta: AdminCommand, config: Path, state: FakeAdmin) -> AsyncIterator[AdminCommand]:
    """The same beside a bridge that runs on the state."""
    async with AdminServer(config.parent / "state", state):
        yield kubedelta


@pytest.fixture
def stopped(kubedelta: AdminCommand, config: Path, state: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> AdminCommand:
    """The same where no bridge runs."""

    @asynccontextmanager
    async def files(settings: Settings) -> AsyncIterator[AdminOperations]:
        assert settings.state.directory == config.parent / "state"
        yield state

    monkeypatch.setattr(admin_access, "on_files", files)
    return kubedelta


def lines(*text: str) -> str:
    return "".join(f"{line}\n" for line in text)


# ── sinks ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("action", "changes", "said"),
    [
        ("retry", True, "hook is tried now"),
        ("retry", False, "hook was not waiting: it is paused, an attempt is under way, or none is due"),
        ("pause", True, "hook is paused until kubedelta sinks resume; max_backlog still holds"),
        ("pause", False, "hook was already paused"),
        ("resume", True, "hook is resumed"),
        ("resume", False, "hook was not paused"),
    ],
)
async def test_a_sink_is_steered_by_name(
    running: AdminCommand, state: FakeAdmin, action: str, changes: bool, said: str
) -> None:
    state.changes = changes

    assert await running(f"sinks {action} hook") == (Exit.OK, lines(said), "")
    assert state.asked[-1] == (f"{action}_sink", "hook")
    code, out, _ = await running(f"sinks {action} hook --json")
    assert (code, json.loads(out)) == (Exit.OK, {"changed": changes, "running": True})


def test_without_an_action_sinks_lists_their_types(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sinks"]) == Exit.OK
    assert {"kafka", "nats", "webhook", "file"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}


# ── reload ───────────────────────────────────────────────────────────────────


async def test_a_reload_prints_what_changed(running: AdminCommand, state: FakeAdmin) -> None:
    assert await running("reload --allow-deletes 7") == (
        Exit.OK,
        lines("sinks.audit: added", "pods: 7 objects exported as deleted", "/etc/kubedelta.yaml is in effect"),
        "",
    )
    assert ("reload", ReloadRequest(7)) in state.asked
    code, out, _ = await running("reload --json")
    assert (code, json.loads(out)["deletes"]) == (Exit.OK, {"pods": 7})
    state.reloaded = Reloaded("/etc/kubedelta.yaml")
    assert await running("reload") == (Exit.OK, lines("/etc/kubedelta.yaml is in effect, as before"), "")


async def test_a_refused_reload_is_exit_1_with_every_reason(
    running: AdminCommand, state: FakeAdmin, config: Path
) -> None:
    state.reloaded = Reloaded("/etc/kubedelta.yaml", problems=["cluster.name: needs a restart", "state: \x1b[2J"])
    first = "refused; the former configuration stays in effect:"
    said = lines(first, "cluster.name: needs a restart", "state: \\u001b[2J")
    # An invalid file is the bridge's to refuse.
    for text in ("", "x: 1\n", "x: [\n"):
        _append(config, text)
        assert await running("reload") == (Exit.NO, "", said)
    code, out, _ = await running("reload --json")
    assert (code, len(json.loads(out)["problems"])) == (Exit.NO, 2)


def _but(state: FakeAdmin, *later: BridgeStatus) -> None:
    """The status after the reload."""
    at_first, answers = state.status_snapshot, iter(later)

    async def status() -> BridgeStatus:
        state.status_snapshot = next(answers, state.status_snapshot) if state.asked else at_first
        return state.status_snapshot

    state.status = status  # type: ignore[method-assign]


def _of(*informers: InformerStatus, changing: bool = True) -> BridgeStatus:
    return BridgeStatus(informers=informers, sinks=(), changing=changing)


def _an_informer(resource: str, state: InformerState, reason: str = "") -> InformerStatus:
    live = state is InformerState.LIVE
    return InformerStatus(resource=resource, scope="", state=state, synced=live, live=live, reason=reason)


async def test_a_reload_names_what_fails_since(running: AdminCommand, state: FakeAdmin) -> None:
    state.reloaded = Reloaded("/etc/kubedelta.yaml", ["resources: added: jobs.batch, secrets"])
    old = _an_informer("pods", InformerState.RECONNECTING, "since yesterday")
    refused = _an_informer("secrets", InformerState.REFUSED, "cannot list")
    state.status_snapshot = _of(old)
    _but(state, _of(old, _an_informer("secrets", InformerState.LISTING)), _of(old, refused))
    code, out, err = await running("reload")
    assert (code, out) == (
        Exit.NO,
        lines("resources: added: jobs.batch, secrets", "/etc/kubedelta.yaml is in effect"),
    )
    assert err == lines("fails since: resources.secrets: the API server refuses the bridge: cannot list")
    code, out, _ = await running("reload --json")
    assert code == Exit.NO
    assert [each["subject"] for each in json.loads(out)["troubles"]] == ["resources.secrets"]


async def test_a_first_list_does_not_fail_a_reload(
    running: AdminCommand, state: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "_SETTLES_WITHIN", 0.0)
    state.reloaded = Reloaded("/etc/kubedelta.yaml", ["resources: changed: pods"])
    state.status_snapshot = _of(_an_informer("pods", InformerState.LISTING))
    code, _, err = await running("reload")
    assert code == Exit.OK
    assert err == lines("under way: resources.pods: its first list is under way, with 0 objects so far")


async def test_a_reload_needs_a_bridge_that_runs(kubedelta: AdminCommand, config: Path) -> None:
    code, out, err = await kubedelta("reload")
    assert (code, out) == (Exit.UNAVAILABLE, "")
    assert str(config.parent / "state") in err
    assert "no bridge runs" in err


REFUSED = (
    "no acknowledgement within 3 s: 127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"
)

# ── cursors ──────────────────────────────────────────────────────────────────


async def test_cursors_are_a_table_for_people(running: AdminCommand, state: FakeAdmin) -> None:
    state.found = Cursors(
        801,
        1234,
        [
            CursorStatus("audit", 1234, 0, 0, 0.0, True),
            CursorStatus("dead", 1200, 34, 2048, 60.0, True, last_error=REFUSED),
            CursorStatus("fenced", 1200, 34, 2048, 60.0, True, paused=True, fenced=True),
            CursorStatus("gone", 1200, 34, 2048, 60.0, True, paused=True, last_error="answers 410", gone=True),
            CursorStatus("hook", 1000, 234, 1_300_000, 200.0, True, backfill="snapshot", backfill_left=500),
            CursorStatus("old", 900, 334, 2048, 7300.0, False),
            CursorStatus("shy", 1200, 34, 2048, 60.0, True, retry_in=3550.0, asked=3600.0, last_error="answers 503"),
            CursorStatus("still", 1200, 34, 2048, 60.0, True, paused=True, last_error="answers 503"),
        ],
    )

    code, out, _ = await running("cursors")

    assert code == Exit.OK
    assert out == lines(
        "SINK    SETTLED  BACKLOG  BYTES    OLDEST",
        "audit   1234     0        0 B      -",
        "dead    1200     34       2.0 KiB  1m      failing: no acknowledgement within …ect to"
        " ipv4#127.0.0.1:9092 failed: Connection refused",
        "fenced  1200     34       2.0 KiB  1m      fenced, until kubedelta sinks resume: another bridge has taken the"
        " destination over",
        "gone    1200     34       2.0 KiB  1m      gone, until kubedelta sinks resume: answers 410",
        "hook    1000     234      1.2 MiB  3m      snapshot: 500 left",
        "old     900      334      2.0 KiB  2h      not in the configuration",
        "shy     1200     34       2.0 KiB  1m      next attempt in 59m (the destination asked for 1h): answers 503",
        "still   1200     34       2.0 KiB  1m      paused",
        "801 to 1234 can be replayed",
    )


@pytest.mark.parametrize(
    ("first", "last", "retains", "said"),
    [(1, 0, True, "no records can be replayed"), (1, 40, False, "replay: off (state.retain)")],
)
async def test_cursors_say_what_can_be_replayed(
    running: AdminCommand, state: FakeAdmin, first: int, last: int, retains: bool, said: str
) -> None:
    state.found = Cursors(first, last, [], retains=retains)
    assert await running("cursors") == (Exit.OK, lines("SINK  SETTLED  BACKLOG  BYTES  OLDEST", said), "")


async def test_cursors_are_one_document_for_machines(running: AdminCommand) -> None:
    code, out, _ = await running("cursors --json")
    found = json.loads(out)
    [hook] = found.pop("sinks")
    assert (code, found) == (Exit.OK, {"first": 1, "last": 40, "retains": True})
    numbers = {"settled": 40, "backlog_records": 0, "backlog_bytes": 0, "oldest_seconds": 0.0, "backfill_left": 0}
    flags = {"configured": True, "paused": False, "gone": False, "fenced": False}
    assert hook == {
        "sink": "hook",
        "backfill": "",
        "last_error": "",
        "retry_in": None,
        "asked": None,
        **numbers,
        **flags,
    }


# ── replay ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "request_made"),
    [
        ("--from beginning --resource po", ReplayRequest("hook", "beginning", "po")),
        ("--from 2026-11-21T09:30:00+01:00", ReplayRequest("hook", "2026-11-21T08:30:00.000000Z")),
        ("--from 7 --namespace shop", ReplayRequest("hook", 7, namespace="shop")),
    ],
)
async def test_a_replay_says_which_records_will_be_delivered(
    running: AdminCommand, state: FakeAdmin, words: str, request_made: ReplayRequest
) -> None:
    assert await running(f"replay hook {words}") == (Exit.OK, lines("hook will get 30 records again, 11 to 40"), "")
    assert state.asked == [("replay", request_made)]


@pytest.mark.parametrize("retains", [True, False])
async def test_a_replay_of_nothing_is_no_success(running: AdminCommand, state: FakeAdmin, retains: bool) -> None:
    state.replayed, state.found = Replayed(0, 0, 0), Cursors(1, 40, [], retains=retains)
    code, out, err = await running("replay hook --from 11")
    assert (code, out) == (Exit.NO, "")
    assert err.startswith("no records to replay: hook has settled no such record")
    assert ("replay: off (state.retain): set state.retain.age" in err) is not retains
    code, out, _ = await running("replay hook --from 11 --json")
    assert (code, json.loads(out)["records"]) == (Exit.NO, 0)


# ── snapshot ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "request_made"),
    [
        ("", SnapshotRequest("hook")),
        ("--resource po --namespace shop", SnapshotRequest("hook", "po", "shop")),
        ("--where object.spec.replicas>1", SnapshotRequest("hook", where="object.spec.replicas>1")),
    ],
)
async def test_a_snapshot_says_how_many_objects_follow(
    running: AdminCommand, state: FakeAdmin, words: str, request_made: SnapshotRequest
) -> None:
    assert await running(f"snapshot hook {words}") == (
        Exit.OK,
        lines("hook gets snapshot/hook/40/3 with 20 objects"),
        "",
    )
    assert state.asked == [("snapshot", request_made)]


@pytest.mark.parametrize("sink", ["", "hook "])
async def test_the_status_of_a_snapshot_shows_what_is_left(running: AdminCommand, sink: str) -> None:
    code, out, _ = await running(f"snapshot {sink}--status")
    assert code == Exit.OK
    assert out.splitlines()[1].split() == [
        "hook", "3", "delivering", "20", "7", "2026-11-21T08:30:00Z", "-", "--where", "object.kind"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "answer"),
    [
        ("delivered", (Exit.OK, lines("hook has got snapshot/hook/40/3 with 20 objects"), "")),
        ("cancelled", (Exit.NO, "", lines("snapshot/hook/40/3 was cancelled: 7 of 20 objects are missing"))),
    ],
)
async def test_a_snapshot_is_waited_for(
    running: AdminCommand, state: FakeAdmin, ended: str, answer: tuple[Exit, str, str]
) -> None:
    state.snapshot_ends = [SnapshotState.DELIVERING, SnapshotState(ended)]
    assert await running("snapshot hook --wait") == answer


async def test_whoever_waits_for_a_sink_hears_why_it_does_not_move(
    running: AdminCommand, state: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_access, "_LOOK_EVERY", 0.0)
    paused = SinkStatus(name="hook", type="webhook", state=SinkState.PAUSED, backfill="replay", backfill_left=3)
    moving = msgspec.structs.replace(paused, state=SinkState.DELIVERING, dead_letters=1)
    done = msgspec.structs.replace(moving, backfill="")
    state.snapshot_ends = [SnapshotState.DELIVERING] * 3 + [SnapshotState.DELIVERED]
    for words in ("snapshot hook --wait", "replay hook --from 11 --wait"):
        answers = iter([paused, paused, moving, done])

        async def status(answers: Iterator[SinkStatus] = answers) -> BridgeStatus:
            return BridgeStatus(informers=(), sinks=(next(answers),))

        state.status = status  # type: ignore[method-assign]
        code, _, err = await running(words)
        assert code == Exit.OK
        assert err == lines("waiting for sinks.hook: paused by an operator (see kubedelta status)")


async def test_the_status_of_an_unknown_snapshot_is_no(running: AdminCommand) -> None:
    said = lines("sink other has had no snapshot on demand")
    assert await running("snapshot other --status") == (Exit.NO, "", said)


async def test_a_snapshot_is_cancelled_by_its_sink(running: AdminCommand, state: FakeAdmin) -> None:
    assert await running("snapshot hook --cancel") == (
        Exit.OK,
        lines(
            "snapshot/hook/40/3 is cancelled: hook has taken 16 of its 20 objects, which it still gets, and does not"
            " get the other 4"
        ),
        "",
    )
    assert state.asked == [("cancel_snapshot", "hook")]


async def test_a_snapshot_as_json_has_every_figure(running: AdminCommand) -> None:
    for words, state in (("hook", "delivering"), ("hook --cancel", "cancelled")):
        _, out, _ = await running(f"snapshot {words} --json")
        assert json.loads(out)["state"] == state
    _, out, _ = await running("snapshot --status --json")
    assert [each["left"] for each in json.loads(out)] == [7]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ("", "the name of a sink is required"),
        ("--cancel", "the name of a sink is required"),
        ("hook --status --cancel", "either --status or --cancel"),
        ("hook --cancel --where true", "--resource, --namespace, --where and --wait are for a new snapshot"),
    ],
)
async def test_a_snapshot_has_one_purpose(running: AdminCommand, words: str, mistake: str) -> None:
    code, _, said = await running(f"snapshot {words}")
    assert code == Exit.USAGE
    assert mistake in said


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--from 0",
        "--from -1",
        "--from 1.5",
        "--from 9223372036854775808",
        "--from ٣",
        "--from yesterday",
        "--from 2026-11-21",
        "--from 2026-11-21T08:30:00",
        "--from 2026-13-21T08:30:00Z",
        "--from 2026-W47-6T08:30:00Z",
        "--from 0001-01-01T00:00:00+14:00",
    ],
)
async def test_a_replay_from_nowhere_is_a_usage_error(running: AdminCommand, state: FakeAdmin, words: str) -> None:
    code, out, err = await running(f"replay hook {words}")
    assert (code, out) == (Exit.USAGE, "")
    assert "usage: kubedelta replay" in err
    assert state.asked == []


async def test_a_start_that_is_none_is_refused_with_the_forms(running: AdminCommand) -> None:
    _, _, err = await running("replay hook --from 2026-11-21T08:30:00")
    assert err.splitlines()[-1] == (
        "kubedelta replay: argument --from: '2026-11-21T08:30:00' is no start of a replay; allowed: a sequence number "
        "such as 1200, a duration before now such as 10m, a time with its offset such as 2026-11-21T08:30:00Z or "
        "2026-11-21T09:30:00+01:00, or beginning"
    )


def test_a_replay_begins_some_time_ago() -> None:
    ago = datetime.now(UTC) - datetime.fromisoformat(str(start("10m")))
    assert timedelta(minutes=10) - timedelta(seconds=1) < ago < timedelta(minutes=15)


@given(moment=datetimes(timezones=timezones()))
def test_times_with_any_offset_become_the_form_of_a_record(moment: datetime) -> None:
    if moment.utcoffset() != timedelta(0) and moment.utcoffset().seconds % 60:  # type: ignore[union-attr]
        return  # local mean time has seconds, RFC 3339 has none
    try:
        expected = moment.astimezone(UTC)
    except OverflowError:
        return
    assert start(moment.isoformat()) == expected.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


# ── dead-letters ─────────────────────────────────────────────────────────────


async def test_dead_letters_are_a_table_for_people(running: AdminCommand, state: FakeAdmin) -> None:
    state.stored = [
        a_dead_letter(7),
        a_dead_letter(8, parked=True, reason="waits for 7"),
        a_dead_letter(12, "audit", retrying=True, resource="deployments.apps", reason="line one\nline\x1b[31m two"),
    ]

    code, out, _ = await running("dead-letters list")

    assert code == Exit.OK
    assert out == lines(
        "NUMBER  SINK   SEEN                  RESOURCE          OBJECT       OP       STATE     REASON",
        "7       hook   2026-11-21T08:30:00Z  pods              shop/web-7   updated  rejected  413 Payload Too Large",
        "8       hook   2026-11-21T08:30:00Z  pods              shop/web-8   updated  parked    waits for 7",
        "12      audit  2026-11-21T08:30:00Z  deployments.apps  shop/web-12  updated  retrying  line one line\\u001b[31m two",  # noqa: E501
        "3 dead letters",
    )


async def test_parked_records_have_no_rows_of_their_own(running: AdminCommand, state: FakeAdmin) -> None:
    first, again = a_dead_letter(7), a_dead_letter(1000, retrying=True)
    state.stored = [first, again]
    state.chains = {7: DeadLetterChain(first, 1, 681), 1000: DeadLetterChain(again, 2, 1)}

    _, out, _ = await running("dead-letters list")

    _, one, two, total = out.splitlines()
    assert "1 rejected, 681 parked" in one
    assert "retrying 2 rejected, 1 parked" in two
    assert total == "685 dead letters"


async def test_a_retry_says_how_many_follow(running: AdminCommand, state: FakeAdmin) -> None:
    state.stored = [a_dead_letter(number) for number in range(7, 10)]
    state.followers = 681

    _, one, _ = await running("dead-letters retry hook 7")
    _, two, _ = await running("dead-letters retry hook 7 8 8")

    assert one == lines("1 dead letter of hook will be delivered again, and 681 more of the same object")
    assert two == lines("2 dead letters of hook will be delivered again, and 681 more of the same objects")


async def test_the_list_goes_on_until_the_last_page(running: AdminCommand, state: FakeAdmin) -> None:
    assert await running("dead-letters list") == (Exit.OK, "0 dead letters\n", "")
    state.asked.clear()
    state.stored = [a_dead_letter(number) for number in range(1, 2502)]

    code, out, _ = await running("dead-letters list hook")

    assert code == Exit.OK
    assert [asked[1:] for asked in state.asked] == [("hook", after, 1000) for after in (0, 1000, 2000, 2501)]
    printed = [line.split()[0] for line in out.splitlines()[:-1] if not line.startswith("NUMBER")]
    assert printed == [str(number) for number in range(1, 2502)]
    assert out.endswith("\n2501 dead letters\n")


async def test_the_list_is_one_object_a_line_for_machines(running: AdminCommand, state: FakeAdmin) -> None:
    assert await running("dead-letters list --json") == (Exit.OK, "", "")
    state.stored = [a_dead_letter(number, reason="line one\nline two") for number in range(1, 1002)]

    code, out, _ = await running("dead-letters list --json")

    assert code == Exit.OK
    dead_letters = [json.loads(line) for line in out.splitlines()]
    assert [dead_letter["number"] for dead_letter in dead_letters] == list(range(1, 1002))
    assert (dead_letters[0]["reason"], dead_letters[0]["parked"]) == ("line one\nline two", False)


async def test_a_dead_letter_is_shown_whole_with_its_object(running: AdminCommand, state: FakeAdmin) -> None:
    state.stored = [a_dead_letter(6), a_dead_letter(7, reason="x" * 200)]
    state.bodies[7] = b'{"kind":"Pod","metadata":{"name":"web-7","labels":{}},"n":1.10}'

    code, out, _ = await running("dead-letters show 7")
    assert (code, out.splitlines()) == (
        Exit.OK,
        [
            "number    7",
            "sink      hook",
            "sequence  107",
            "id        u-7/7/updated",
            "resource  pods",
            "object    shop/web-7",
            "op        updated",
            "seen      2026-11-21T08:30:00.000001Z",
            "state     rejected",
            f"reason    {'x' * 200}",
            *["{", '  "kind": "Pod",', '  "metadata": {', '    "name": "web-7",', '    "labels": {}', "  },"],
            *['  "n": 1.10', "}"],
        ],
    )
    code, out, _ = await running("dead-letters show 7 --json")
    found = json.loads(out)
    assert (code, found["dead_letter"]["number"], found["object"]["kind"]) == (Exit.OK, 7, "Pod")


async def test_an_object_as_deep_as_kubernetes_takes_it_is_shown(running: AdminCommand, state: FakeAdmin) -> None:
    state.stored, state.bodies = [a_dead_letter(7)], {7: b'{"a":' * 9_900 + b"1" + b"}" * 9_900}
    code, out, _ = await running("dead-letters show 7 --json")
    assert (code, out.count('"a":')) == (Exit.OK, 9_900)
    code, out, _ = await running("dead-letters show 7")
    assert (code, out.count('"a":')) == (Exit.OK, 9_900)
    assert len(out) < 100_000, "not indented at the square of its length"


@pytest.mark.parametrize("option", ["", " --json"])
async def test_objects_are_printed_without_terminal_escapes(
    running: AdminCommand, state: FakeAdmin, option: str
) -> None:
    hostile = "\x9b31m\u202egnp\u2028\x7f"
    state.stored = [a_dead_letter(7, reason=hostile, resource=hostile, answer=f"no schema\nfor {hostile}")]
    state.bodies = {7: json.dumps({"kind": hostile}, ensure_ascii=False).encode()}
    for words in ("dead-letters show 7", "dead-letters list"):
        code, out, _ = await running(words + option)
        assert code == Exit.OK
        assert {letter for letter in out if not letter.isprintable()} == {"\n"}
        assert "no schema\n" not in out, "an answer is one line"


@pytest.mark.parametrize("number", [5, 8])
async def test_a_number_that_no_dead_letter_has_is_exit_1(running: AdminCommand, state: FakeAdmin, number: int) -> None:
    state.stored = [a_dead_letter(6), a_dead_letter(7)]
    assert await running(f"dead-letters show {number}") == (
        Exit.NO,
        "",
        lines(f"there is no dead letter {number}; see kubedelta dead-letters list"),
    )


@pytest.mark.parametrize(
    ("words", "asked", "printed"),
    [
        ("retry hook 7", ("retry", "hook", [7]), "1 dead letter of hook will be delivered again"),
        ("retry hook 7 9", ("retry", "hook", [7, 9]), "2 dead letters of hook will be delivered again"),
        ("retry hook --all", ("retry", "hook", None), "3 dead letters of hook will be delivered again"),
        ("drop hook 7", ("drop", "hook", [7]), "1 dead letter of hook dropped"),
        ("drop hook --all", ("drop", "hook", None), "3 dead letters of hook dropped"),
    ],
)
async def test_dead_letters_are_retried_or_dropped_by_number_or_all(
    running: AdminCommand, state: FakeAdmin, words: str, asked: tuple[object, ...], printed: str
) -> None:
    state.stored = [a_dead_letter(number) for number in (7, 8, 9)]
    assert await running(f"dead-letters {words}") == (Exit.OK, lines(printed), "")
    assert state.asked == [asked]


@pytest.mark.parametrize("what", ["retry", "drop"])
@pytest.mark.parametrize("words", ["hook", "hook 7 --all", "hook 0", "hook seven", "", "--all", "hook 7 --every"])
async def test_without_a_clear_choice_no_dead_letter_is_touched(
    running: AdminCommand, state: FakeAdmin, what: str, words: str
) -> None:
    code, out, err = await running(f"dead-letters {what} {words}")
    assert (code, out) == (Exit.USAGE, "")
    assert "usage: kubedelta" in err
    assert state.asked == []


@pytest.mark.parametrize("order", ["drop -c FILE hook 7 9", "drop hook -c FILE 7 9", "drop hook 7 -c FILE --json 9"])
async def test_options_may_stand_anywhere(running: AdminCommand, config: Path, state: FakeAdmin, order: str) -> None:
    words = ["dead-letters", *order.replace("FILE", str(config)).split()]
    assert await asyncio.to_thread(main, words) == Exit.OK
    assert state.asked == [("drop", "hook", [7, 9])]


# ── state check ──────────────────────────────────────────────────────────────


async def test_a_healthy_state_is_reported_with_its_sizes(running: AdminCommand, state: FakeAdmin) -> None:
    state.report = StateReport(
        "/state/outbox.db", "3.51.0", 1, "u-1", [], 40, 20, 2, 1, 3, 12 * 1024**2, 4 * 1024, 3 * 1024**3
    )
    assert await running("state check") == (
        Exit.OK,
        lines(
            "path          /state/outbox.db",
            "sqlite        3.51.0",
            "format        1",
            "cluster       u-1",
            "records       40",
            "objects       20",
            "informers     2",
            "sinks         1",
            "dead letters  3",
            "file          12.0 MiB, of which 3.0 GiB are free",
            "wal           4.0 KiB",
            "integrity     ok",
        ),
        "",
    )


@pytest.mark.parametrize("option", ["", "--json"])
async def test_a_state_with_problems_is_exit_1(running: AdminCommand, state: FakeAdmin, option: str) -> None:
    problems = ["page 7: wrong", "row 9 missing\nfrom index"]
    state.report = StateReport("/state/outbox.db", "3.51.0", 1, "", problems, 40, 20, 2, 1, 0, 0, 0, 0)

    code, out, _ = await running(f"state check {option}")

    assert code == Exit.NO
    if option:
        assert json.loads(out)["problems"] == problems
    else:
        assert out.endswith(lines("integrity     2 problems", "  page 7: wrong", "  row 9 missing from index"))
        assert "cluster       not known\n" in out


# ── Who is asked ─────────────────────────────────────────────────────────────

EVERY = [
    "cursors",
    "replay hook --from beginning",
    "dead-letters list",
    "dead-letters show 7",
    "dead-letters retry hook --all",
    "dead-letters drop hook --all",
    "sinks retry hook",
    "sinks pause hook",
    "sinks resume hook",
    "state check",
]


@pytest.mark.parametrize("words", EVERY)
async def test_every_command_works_on_the_files_where_no_bridge_runs(
    stopped: AdminCommand, state: FakeAdmin, words: str
) -> None:
    state.stored, state.bodies = [a_dead_letter(7)], {7: b"{}"}
    assert (await stopped(words))[0] == Exit.OK
    assert state.asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sinks retry hook", "no bridge runs: the next one tries hook as soon as it starts"),
        ("sinks pause hook", "hook is paused until kubedelta sinks resume; max_backlog still holds"),
        ("sinks resume hook", "hook is resumed, at the next start: the bridge does not run now"),
        (
            "replay hook --from 11",
            "hook will get 30 records again, 11 to 40, at the next start: the bridge does not run now",
        ),
        (
            "snapshot hook",
            "hook gets snapshot/hook/40/3 with 20 objects, at the next start: the bridge does not run now",
        ),
        (
            "dead-letters retry hook 7",
            "1 dead letter of hook will be delivered again, at the next start: the bridge does not run now",
        ),
        ("dead-letters drop hook 7", "1 dead letter of hook dropped"),
    ],
)
async def test_what_takes_effect_at_the_next_start_says_so(stopped: AdminCommand, words: str, said: str) -> None:
    assert await stopped(words) == (Exit.OK, lines(said), "")


async def test_json_says_whether_a_bridge_runs(stopped: AdminCommand, config: Path, state: FakeAdmin) -> None:
    for words, answer in {
        "replay hook --from 11": {"records": 30, "first": 11, "last": 40},
        "dead-letters retry hook 1 2": {"retried": 2},
        "dead-letters drop hook 1 2": {"dropped": 2},
    }.items():
        code, out, _ = await stopped(f"{words} --json")
        assert (code, json.loads(out)) == (Exit.OK, answer | {"running": False})
        async with AdminServer(config.parent / "state", state):
            code, out, _ = await stopped(f"{words} --json")
        assert (code, json.loads(out)) == (Exit.OK, answer | {"running": True})


@pytest.mark.parametrize("words", EVERY)
async def test_the_files_are_not_opened_beside_a_running_bridge(
    running: AdminCommand, state: FakeAdmin, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_access, "on_files", None)
    state.stored, state.bodies = [a_dead_letter(7)], {7: b"{}"}
    assert (await running(words))[0] == Exit.OK
    assert state.asked


@pytest.mark.parametrize("words", ["replay audit --from 1", "dead-letters list audit", "dead-letters drop audit --all"])
async def test_an_unknown_sink_is_exit_1(stopped: AdminCommand, config: Path, state: FakeAdmin, words: str) -> None:
    answer = Exit.NO, "", lines("there is no sink audit; there is: hook")
    assert await stopped(words) == answer
    async with AdminServer(config.parent / "state", state):
        assert await stopped(words) == answer


@pytest.mark.parametrize("words", EVERY)
async def test_a_silent_bridge_exits_69_and_its_files_stay_closed(
    kubedelta: AdminCommand, config: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "_GREETING_SECONDS", 0.05)
    monkeypatch.setattr(admin_access, "on_files", None)
    with socket.socket(socket.AF_UNIX) as standing_still:
        standing_still.bind(str(config.parent / "state" / "admin.sock"))
        standing_still.listen()
        code, out, err = await kubedelta(words)
    assert (code, out) == (Exit.UNAVAILABLE, "")
    assert err.endswith("state/admin.sock: no answer within 0.05 seconds\n")


async def test_an_interrupted_command_does_not_look_successful(config: Path) -> None:
    asked = asyncio.Event()

    async def stand_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_unix_server(stand_still, config.parent / "state" / "admin.sock"):
        with TemporaryFile() as errors:
            process = fork_server().start(["state", "check", "-c", str(config)], 1, errors.fileno())
            await asked.wait()
            process.send_signal(signal.SIGINT)
            code = await asyncio.to_thread(process.wait, 60 * BUSY)
            errors.seek(0)
            assert (code, errors.read()) == (Exit.INTERRUPTED, b"")


async def test_a_bug_in_the_running_bridge_is_exit_70_in_one_line(running: AdminCommand, state: FakeAdmin) -> None:
    state.error = RuntimeError("this\nis odd")
    assert await running("cursors") == (
        Exit.SOFTWARE,
        "",
        lines("the running bridge failed: RuntimeError: this is odd"),
    )


@pytest.mark.parametrize(
    ("error", "code", "printed"),
    [
        (StateUnusable("state.directory: another process holds the lock"), Exit.CONFIG, "state.directory: another"),
        (Damaged("page 7"), Exit.NO, "the state is damaged; the next start moves it aside: page 7"),
    ],
)
async def test_files_that_cannot_be_used_are_reported_with_the_reason(
    kubedelta: AdminCommand, monkeypatch: pytest.MonkeyPatch, error: Exception, code: Exit, printed: str
) -> None:
    @asynccontextmanager
    async def unusable(_: Settings) -> AsyncIterator[AdminOperations]:
        raise error
        yield

    monkeypatch.setattr(admin_access, "on_files", unusable)
    ended = await kubedelta("cursors")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(printed)


OPERATING = (
    "cursors",
    "top --once --interval 10ms",
    "dead-letters list",
    "dead-letters retry hook --all",
    "sinks pause hook",
    "sinks retry hook",
    "replay hook --from 11",
    "snapshot hook",
    "snapshot --status",
    "state check",
    "status",
)


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("words", OPERATING)
@pytest.mark.parametrize("mistake", ["x: 1\n", "sinks: {\n", "\tx\n", "cluster: []\n", "y: &a *a\n"])
async def test_an_invalid_file_takes_no_command_away(
    running: AdminCommand, state: FakeAdmin, config: Path, words: str, mistake: str
) -> None:
    well = await running(words)
    _append(config, mistake)
    found = await running(words)
    if words == "status":
        assert found.code == Exit.NO
        assert "configuration: invalid" in found.out
    else:
        assert (found.code, found.out) == (well.code, well.out)
        assert "kubedelta.yaml" in found.err
        assert "warning: " in found.err


async def test_a_mistake_in_a_variable_takes_none_away_either(
    running: AdminCommand, state: FakeAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEDELTA__RESORCES", "pods")
    code, _, err = await running("cursors")
    assert code == Exit.OK
    assert "KUBEDELTA__RESORCES: resorces: unknown option" in err


async def test_a_variable_finds_the_bridge_without_a_file(
    running: AdminCommand, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.unlink()  # noqa: ASYNC240
    code, _, err = await running("cursors")
    assert code == Exit.CONFIG
    assert "KUBEDELTA__STATE__DIRECTORY: names the state directory" in err
    monkeypatch.setenv("KUBEDELTA__STATE__DIRECTORY", str(config.parent / "state"))
    assert (await running("cursors")).code == Exit.OK


@asynccontextmanager
async def a_bridge_whose_directory_was_changed(config: Path, state: FakeAdmin, about: About) -> AsyncIterator[Path]:
    """Runs on the former directory, whose path it yields, and serves its probes."""
    former = config.parent / "state"
    status = BridgeStatus(informers=(), sinks=(), state_directory=str(former))
    metrics = Metrics(version="0", failures={})
    web = WebServer("127.0.0.1", 0, status=lambda: status, alive=lambda: True, metrics=metrics.render)
    async with AdminServer(former, state, about=about), web:
        a_config(
            config.parent,
            sink="hook",
            state={"directory": "other"},
            telemetry={"listen": f"127.0.0.1:{web.port}"},
        )
        yield former


@pytest.mark.parametrize("words", [*OPERATING, "reload"])
async def test_a_changed_state_directory_still_finds_the_bridge(
    kubedelta: AdminCommand, config: Path, state: FakeAdmin, words: str
) -> None:
    state.reloaded = Reloaded(str(config), problems=["state.directory: changed, and needs a restart"])
    about = About(file=str(config.parent.resolve() / config.name))
    async with a_bridge_whose_directory_was_changed(config, state, about) as former:
        found = await kubedelta(words)
    assert found.code == (Exit.NO if words in ("reload", "status") else Exit.OK)
    assert f"its bridge runs on {former} until a restart" in found.err
    assert words != "reload" or "state.directory: changed, and needs a restart" in found.err


async def test_the_bridge_of_another_file_is_left_alone(
    kubedelta: AdminCommand, config: Path, state: FakeAdmin
) -> None:
    async with a_bridge_whose_directory_was_changed(config, state, About(file="/elsewhere.yaml")):
        assert (await kubedelta("reload")).code == Exit.UNAVAILABLE
    assert state.asked == []


@pytest.mark.parametrize("words", OPERATING)
async def test_files_are_read_with_a_valid_configuration(stopped: AdminCommand, config: Path, words: str) -> None:
    _append(config, "x: 1\n")
    code, _, err = await stopped(words)
    assert code == (Exit.UNAVAILABLE if words.startswith(("top", "status")) else Exit.CONFIG)
    assert "x: unknown option" in err or words == "status"


@pytest.mark.parametrize(
    "words",
    ["replay", "cursors", "reload", "snapshot", "state check", "sinks retry", "sinks pause", "sinks resume"]
    + [f"dead-letters {action}" for action in ("list", "show", "retry", "drop")],
)
def test_every_command_takes_a_configuration_and_prints_json(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: kubedelta {words}")
    assert "--config FILE" in printed
    assert "--json" in printed
