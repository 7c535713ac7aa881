"""``kubedelta status``: what is wrong, and the next command."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.app.admin.server import AdminServer
from bridge.cli.exits import Exit
from bridge.model.admin import About, DeadLetterChain
from bridge.model.diagnosis import troubles_of
from bridge.model.policies import StartPolicy
from bridge.model.status import (
    OTHERS_FIRST,
    BridgeStatus,
    CircuitState,
    ConfigurationStatus,
    ElectionState,
    ElectionStatus,
    FollowerStatus,
    InformerState,
    InformerStatus,
    PauseCause,
    SinkState,
    SinkStatus,
)
from bridge.outbox import Outbox
from bridge.telemetry.facts import discard
from tests.bridge.cli.conftest import Command
from tests.kit.configurations import a_config
from tests.kit.fake_admin import FakeAdmin, a_dead_letter

EVIL = "\x1b]0;owned\x07\n\u202e"


def an_informer(resource: str, state: InformerState = InformerState.LIVE, reason: str = "") -> InformerStatus:
    live = state is InformerState.LIVE
    return InformerStatus(resource=resource, scope="", state=state, synced=live, live=live, reason=reason)


def a_sink(name: str = "hook", state: SinkState = SinkState.IDLE, **further: Any) -> SinkStatus:
    return SinkStatus(name=name, type="webhook", state=state, **further)


WELL = BridgeStatus(informers=(an_informer("pods"),), sinks=(a_sink(),), ledger_objects=7, disk_free_bytes=1 << 40)


def but(**changes: object) -> BridgeStatus:
    return msgspec.structs.replace(WELL, **changes)


def test_a_bridge_that_delivers_has_no_trouble() -> None:
    assert troubles_of(WELL) == []
    busy = a_sink(state=SinkState.DELIVERING, backlog_records=9000, backlog_seconds=500.0, backfill="snapshot")
    assert troubles_of(but(sinks=(busy, a_sink("other", SinkState.IDLE)))) == []
    changing = (an_informer("pods", InformerState.LISTING),)
    assert troubles_of(but(informers=changing, changing=True)) == [], "these were ready before the change"


@pytest.mark.parametrize(
    ("state", "reason"),
    [(InformerState.RECONNECTING, ""), (InformerState.LISTING, ""), (InformerState.LISTING, OTHERS_FIRST)],
)
def test_an_informer_without_an_error_is_under_way(state: InformerState, reason: str) -> None:
    [trouble] = troubles_of(but(informers=(an_informer("pods", state, reason),)))
    assert trouble.under_way, "a reload waits for it, and does not call it failed"


@pytest.mark.parametrize(
    ("state", "reason", "what", "command"),
    [
        (InformerState.REFUSED, 'user "x" cannot list', 'refuses the bridge: user "x" cannot list', "check"),
        (InformerState.LISTING, "", "0 objects so far", "top"),
        (InformerState.LISTING, "400 BadRequest", "first list fails, with 0 objects so far: 400 BadRequest", "check"),
        (InformerState.RECONNECTING, "503", "503", "check"),
        (InformerState.UNKNOWN, "not served", "served", "check"),
    ],
)
def test_each_trouble_of_an_informer_has_its_next_step(
    state: InformerState, reason: str, what: str, command: str
) -> None:
    [found] = troubles_of(but(informers=(an_informer("jobs", state, reason),)))
    assert (found.subject, found.command, what in found.what) == ("resources.jobs", command, True)


DELIVERING = SinkState.DELIVERING


@pytest.mark.parametrize(
    ("sink", "what", "command"),
    [
        (
            a_sink(state=DELIVERING, last_error="refused", backlog_records=3),
            "deliveries fail: refused; an attempt is under way; 3 records wait",
            "sinks retry hook",
        ),
        (a_sink(state=SinkState.WAITING, retry_in=11.6), "next attempt in 12 s", "sinks retry hook"),
        (a_sink(circuit=CircuitState.OPEN), "deliveries fail", "sinks retry hook"),
        (a_sink(state=SinkState.OPENING, last_error="no route"), "no route", "check"),
        (a_sink(state=SinkState.PAUSED), "paused by an operator", "sinks resume hook"),
        (a_sink(state=SinkState.GONE), "wants no more records", "sinks resume hook"),
        (a_sink(state=SinkState.FENCED), "another bridge", "sinks resume hook"),
        (a_sink(dead_letters=682, parked=681), "1 record rejected, 681 parked behind", "dead-letters list hook"),
        (
            a_sink(state=DELIVERING, backlog_records=5, backlog_seconds=720.0),
            "behind; 5 records wait, the oldest for 12 minutes",
            "top --sort lag",
        ),
        (
            a_sink(state=SinkState.PAUSED, backlog_records=1),
            "paused by an operator; 1 record waits",
            "sinks resume hook",
        ),
    ],
)
def test_each_trouble_of_a_sink_has_its_next_step(sink: SinkStatus, what: str, command: str) -> None:
    [found] = troubles_of(but(sinks=(sink,)))
    assert (found.subject, found.command, what in found.what) == ("sinks.hook", command, True)


def of_configuration(refused: str, **further: bool) -> dict[str, object]:
    return {"configuration": ConfigurationStatus(digest="0", loaded_at=0.0, refused=refused, **further)}


def of_election(state: ElectionState, **further: Any) -> dict[str, object]:
    return {"election": ElectionStatus(state=state, identity="a_1", **further)}


BEHIND = FollowerStatus("b", in_sync=False, commits=7, seconds=9.0)


@pytest.mark.parametrize(
    ("changes", "subject", "what", "command"),
    [
        ({"intake_blocked": "the backlog is full"}, "intake", "reads nothing: the backlog is full", "cursors"),
        ({"intake_blocked": "/state: no", "disk_full": True}, "intake", "the disk is full: /state: no", "cursors"),
        ({"disk_free_bytes": 300 << 20}, "state.directory", "300 MiB free", "cursors"),
        ({"informers": ()}, "resources", "not answered", "check"),
        (of_configuration("x: unknown"), "configuration", "the former configuration stays: x: unknown", "reload"),
        (
            of_configuration("disk full", tried_again=True),
            "configuration",
            "not in effect, and is tried again every half minute: disk full",
            "reload",
        ),
        (
            of_election(ElectionState.FOLLOWING, holder="b_1", reason="connection refused"),
            "election",
            "not in sync: connection refused",
            "",
        ),
        (
            of_election(ElectionState.LEADING, followers=(BEHIND,)),
            "election",
            "no follower is in sync, so that a takeover would send a Gap: b is 7 commits behind",
            "",
        ),
    ],
)
def test_each_other_trouble_has_its_next_step(
    changes: dict[str, object], subject: str, what: str, command: str
) -> None:
    [found] = troubles_of(but(**changes))
    assert (found.subject, found.command, what in found.what) == (subject, command, True)
    assert found.command or found.advice


def test_a_rejected_record_is_named_with_its_dead_letter() -> None:
    one = DeadLetterChain(a_dead_letter(17, reason="answers 400"), 1, 2)
    other = DeadLetterChain(a_dead_letter(20), 1, 0)
    [alone] = troubles_of(but(sinks=(a_sink(dead_letters=3, parked=2),)), {"hook": [one]})
    assert alone.what == "1 record rejected, 2 parked behind: dead letter 17, pods shop/web-17: answers 400"
    assert alone.command == "dead-letters retry hook 17"
    [several] = troubles_of(but(sinks=(a_sink(dead_letters=4, parked=2),)), {"hook": [one, other]})
    assert several.what.startswith("2 records rejected, 2 parked behind; the first: dead letter 17, pods shop/web-17")
    assert several.command == "dead-letters list hook"


def test_every_unhealthy_state_is_a_trouble() -> None:
    for sink in SinkState:
        status = a_sink(state=sink)
        assert bool(troubles_of(but(sinks=(status,)))) == (not status.well), sink
    for state in InformerState:
        informer = an_informer("pods", state)
        assert bool(troubles_of(but(informers=(informer,)))) == (not informer.ready), state


# ── The command ──────────────────────────────────────────────────────────────


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return a_config(tmp_path, sink="hook")


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


@pytest.fixture
async def bridge(config: Path) -> AsyncIterator[FakeAdmin]:
    admin = FakeAdmin()
    admin.status_snapshot = but(configuration=ConfigurationStatus(digest=digest(config), loaded_at=0.0))
    about = About(pid=4711, file=str(config.parent.resolve() / config.name))
    async with AdminServer(config.parent / "state", admin, about=about):
        yield admin


async def test_a_bridge_without_trouble_is_one_line_and_0(command: Command, config: Path, bridge: FakeAdmin) -> None:
    assert await command("status", "-c", str(config)) == (
        Exit.OK,
        "ready · 1 resource, 7 objects · 1 sink, 0 records waiting · all is well\n",
        "",
    )


async def test_each_trouble_is_followed_by_a_command_to_paste(
    command: Command, config: Path, bridge: FakeAdmin
) -> None:
    bridge.status_snapshot = msgspec.structs.replace(
        bridge.status_snapshot,
        informers=(an_informer("pods", InformerState.REFUSED, EVIL),),
        sinks=(a_sink(state=SinkState.WAITING, last_error="Connection refused", dead_letters=1),),
    )
    bridge.stored = [a_dead_letter(17, key=EVIL)]
    code, out, err = await command("status", "-c", str(config))
    assert (code, err) == (Exit.NO, "")
    assert "\x1b" not in out
    assert out.splitlines()[0].startswith("not ready · ")
    assert out.splitlines()[0].endswith("3 problems")
    assert [line.split(" -c ")[0] for line in out.splitlines() if line.startswith("  ")] == [
        "  kubedelta check",
        "  repair the destination, then kubedelta sinks retry hook",
        "  when the destination takes it: kubedelta dead-letters retry hook 17",
    ]


@pytest.mark.parametrize("form", [["--json"], ["-o", "json"]])
async def test_machines_get_one_document(command: Command, config: Path, bridge: FakeAdmin, form: list[str]) -> None:
    bridge.status_snapshot = msgspec.structs.replace(bridge.status_snapshot, sinks=(a_sink(state=SinkState.PAUSED),))
    code, out, _ = await command("status", "-c", str(config), *form)
    found = json.loads(out)
    assert code == Exit.NO
    assert (found["running"], found["ready"], found["pid"]) == (True, True, 4711)
    assert [(each["subject"], each["command"]) for each in found["troubles"]] == [("sinks.hook", "sinks resume hook")]
    assert found["status"]["sinks"][0]["state"] == "paused"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "x: 1\ny: 2\n",
            [
                "configuration: invalid, so the former configuration stays in effect",
                "(and 1 more)",
                "kubedelta check --offline -c",
            ],
        ),
        ("# changed\n", ["has changed, and is not in effect yet", "kubedelta reload -c"]),
    ],
    ids=["invalid", "changed"],
)
async def test_a_file_that_is_not_in_effect_is_a_trouble_of_its_own(
    command: Command, config: Path, bridge: FakeAdmin, text: str, said: list[str]
) -> None:
    append(config, text)
    code, out, err = await command("status", "-c", str(config))
    assert (code, err) == (Exit.NO, "")
    assert [each for each in said if each not in out] == []


async def test_the_bridge_of_another_file_is_named(command: Command, config: Path, bridge: FakeAdmin) -> None:
    other = config.with_name("other.yaml")
    append(other, config.read_text())  # noqa: ASYNC240
    code, out, _ = await command("status", "-c", str(other))
    assert code == Exit.NO
    assert f"the bridge runs with {config}" in out


async def test_without_a_bridge_the_files_tell(command: Command, config: Path) -> None:
    code, out, _ = await command("status", "-c", str(config))
    assert code == Exit.UNAVAILABLE
    assert "no bridge runs on" in out
    async with await Outbox.open(config.parent / "state", {"hook": StartPolicy.NOW}, report=discard) as outbox:
        await outbox.sinks.pause("hook", PauseCause.OPERATOR)
    code, out, _ = await command("status", "-c", str(config))
    assert code == Exit.UNAVAILABLE
    assert "kubedelta check -c" in out
    assert "sinks.hook: paused by an operator" in out


async def test_a_bridge_that_does_not_answer_is_a_trouble(command: Command, config: Path, bridge: FakeAdmin) -> None:
    bridge.error = OSError("no")
    code, out, _ = await command("status", "-c", str(config))
    assert code == Exit.UNAVAILABLE
    assert "bridge: OSError: no" in out
