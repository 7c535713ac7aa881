"""``kubedelta tail``: what it prints, chooses and escapes, and how it goes on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bridge.app.admin.server import AdminServer
from bridge.cli import main
from bridge.cli.exits import Exit
from bridge.cli.tail import TailLines
from bridge.cli.terminal import Colours
from bridge.model.admin import Followed, UnknownTarget
from bridge.model.change import Evidence, Op
from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.stored_record import FollowedRecord
from bridge.model.record import Delta
from tests.bridge.cli.conftest import Command
from tests.kit.configurations import a_config
from tests.kit.deadlines import BUSY
from tests.kit.fake_admin import FakeAdmin
from tests.kit.records import CLUSTER_ROLES, DEPLOYMENTS, PODS, a_delta, a_gap, a_snapshot
from tests.sinks.file.test_reading_for_verify import write


def a_pod(sequence: int, name: str, phase: str, *, namespace: str = "shop", op: Op = Op.UPDATED) -> Delta:
    body = json.dumps({"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "status": {"phase": phase}})
    return a_delta(sequence, resource=PODS, key=f"{namespace}/{name}", op=op, body=body.encode())


RECORDS = [
    a_pod(1, "web-1", "Pending", op=Op.ADDED),
    a_pod(2, "web-1", "Running"),
    a_pod(3, "db-1", "Running", namespace="data"),
    a_delta(4, resource=DEPLOYMENTS, key="shop/web", evidence=Evidence.RELISTED),
    a_delta(5, resource=CLUSTER_ROLES, key="admin", op=Op.DELETED),
]


@pytest.fixture
async def deltas(tmp_path: Path) -> Path:
    path = tmp_path / "deltas.ndjson"
    await write(path, [a_snapshot(), *RECORDS, a_gap(6, 9)])
    return path


async def tailed(command: Command, file: Path | str, *words: str) -> list[str]:
    """The lines of a tail that does not follow, without their times."""
    ended = await command("tail", str(file), "--no-follow", *words)
    assert (ended.code, ended.err) == (Exit.OK, "")
    return [line.partition(" ")[2] for line in ended.out.splitlines()]


def names_in(printed: str) -> list[str]:
    """Of the objects, where records are printed as JSON."""
    events = map(json.loads, printed.splitlines())
    return [each["subject"].rpartition("/")[2] for each in events if "subject" in each]


async def test_each_record_is_a_line(command: Command, deltas: Path) -> None:
    assert await tailed(command, deltas) == [
        "snapshot began: 4 objects",
        "+ added   pods shop/web-1 @1001",
        "~ updated pods shop/web-1 @1002",
        "~ updated pods data/db-1 @1003",
        "~ updated deployments.apps shop/web @1004 relisted",
        "- deleted clusterroles.rbac.authorization.k8s.io admin @1005",
        "gap: 4 records from 6 to 9 will never come: the outbox was full",
    ]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("--resource pods", ["web-1", "web-1", "db-1"]),
        ("--resource po", ["web-1", "web-1", "db-1"]),
        ("--resource Pod", ["web-1", "web-1", "db-1"]),
        ("--resource pods.apps", []),
        ("--resource deploy", ["web"]),
        ("--resource deployments.apps", ["web"]),
        ("--resource deployments.v1.apps", ["web"]),
        ("--resource *.rbac.authorization.k8s.io", ["admin"]),
        ("--namespace shop", ["web-1", "web-1", "web"]),
        ("--resource pods --namespace data", ["db-1"]),
        ("--lines 3 --resource pods", ["web-1", "db-1"]),
        ("--lines 0", []),
        ("--from-start --lines 1 --resource pods", ["web-1", "web-1", "db-1"]),
        ("--from-beginning --namespace data", ["db-1"]),
        ("--since 2026-11-21T10:00:00+01:00 --namespace data", ["db-1"]),
        ("--since 2026-11-21T10:00:01+01:00", []),
        ("--since 1s", []),
    ],
)
async def test_options_choose_records(command: Command, deltas: Path, words: str, names: list[str]) -> None:
    ended = await command("tail", str(deltas), "--no-follow", "--json", *words.split())
    assert names_in(ended.out) == names


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("object.status.phase == 'Running'", ["web-1", "db-1"]),
        ("op == 'added'", ["web-1"]),
        ("resource == 'pods' && object.metadata.namespace == 'data'", ["db-1"]),
        ("evidence == 'relisted'", ["web"]),
    ],
)
async def test_an_expression_chooses_records(command: Command, deltas: Path, where: str, names: list[str]) -> None:
    ended = await command("tail", str(deltas), "--no-follow", "--json", "--where", where)
    assert names_in(ended.out) == names
    kinds = [each["type"] for each in map(json.loads, ended.out.splitlines()) if "subject" not in each]
    assert kinds == ["kubedelta.gap.v1"], "it may be of any object"


async def test_a_tail_that_ends_without_a_record_says_so(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "deltas.ndjson"
    missing = await command("tail", str(path), "--no-follow")
    assert (missing.code, missing.out) == (Exit.NO, "")
    assert "no record was delivered" in missing.err
    await write(path, RECORDS)
    ended = await command("tail", str(path), "--no-follow", "--resource", "podz")
    assert ended == (Exit.OK, "", "there is no such record\n")


async def test_an_expression_that_fails_says_so_once(command: Command, deltas: Path) -> None:
    ended = await command("tail", str(deltas), "--no-follow", "--where", "object.spec.replicas > 1")
    assert ended.err.count("--where fails") == 1
    assert "clusterroles.rbac.authorization.k8s.io admin" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--where", "objekt.spec == 1"], "--where: column 1"),
        (["--where", "'a text'"], "--where: column 1: the value is of type string"),
        (["--lines", "-3"], "--lines"),
        (["--since", "yesterday"], "a duration before now"),
        (["--since", "10m", "--lines", "3"], "either --lines or --since"),
    ],
)
async def test_a_wrong_option_is_a_usage_error(command: Command, deltas: Path, words: list[str], said: str) -> None:
    ended = await command("tail", str(deltas), "--no-follow", *words)
    assert ended.code == Exit.USAGE
    assert said in ended.err


async def test_the_name_of_a_sink_stands_for_its_file(command: Command, deltas: Path, tmp_path: Path) -> None:
    sinks = {
        "copy": {"type": "file", "path": "deltas.ndjson"},
        "hook": {"type": "webhook", "url": "http://127.0.0.1:9/"},
    }
    config = a_config(tmp_path, sinks=sinks)
    assert len(await tailed(command, "copy", "-c", str(config))) == 7
    ended = await command("tail", "nobody", "-c", str(config))
    assert (ended.code, ended.out) == (Exit.NO, "")
    assert f"sinks of {config}: copy, hook" in ended.err


class Tail:
    """A process that SIGINT interrupts, also where the run itself ignores it: in the background of a shell."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def prints(self, text: bytes) -> None:
        """Its next line has this text."""
        assert self._process.stdout is not None
        assert text in await self._process.stdout.readline()

    async def complains(self, text: bytes) -> None:
        assert self._process.stderr is not None
        assert text in await self._process.stderr.readline()


@asynccontextmanager
async def tailing(*words: str) -> AsyncIterator[Tail]:
    """``kubedelta tail``, which is interrupted at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bridge", "tail", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    async with asyncio.timeout(60 * BUSY):
        yield Tail(process)
        process.send_signal(signal.SIGINT)
        assert await process.wait() == Exit.INTERRUPTED


async def test_it_goes_on_until_it_is_interrupted(tmp_path: Path) -> None:
    """Before there is a file, through a rotation, and without waiting for a buffer to fill."""
    path = tmp_path / "deltas.ndjson"
    async with tailing(str(path)) as tail:
        await tail.complains(b"waiting for the file")
        await write(path, RECORDS[:1])
        await tail.prints(b"web-1")
        path.rename(tmp_path / "deltas.ndjson.1")
        await write(path, RECORDS[2:3])
        await tail.prints(b"db-1")


async def test_without_a_configuration_a_sink_is_a_missing_file() -> None:
    async with tailing("copy") as tail:
        await tail.complains(b"waiting for the file copy, which does not exist; for a sink of that name, name the")


def test_colours_are_for_terminals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    record = FollowedRecord(b"{}", op=Op.DELETED, time="2026-11-21T09:00:00Z", plural="pods", name="web", version="1")
    assert "\x1b[31m- deleted" in TailLines(Colours(on=True)).line(record)
    assert "\x1b" not in TailLines(Colours(on=False)).line(record)
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")
        assert Colours.of_output().paint("x", "red") == "\x1b[31mx\x1b[0m"
        monkeypatch.setenv("NO_COLOR", "1")
        assert Colours.of_output().paint("x", "red") == "x"
    os.close(reader)


@pytest.mark.parametrize("on", [True, False])
def test_names_cannot_control_the_terminal(on: bool) -> None:
    evil = "\x1b]0;owned\x07\n\u202e"
    record = FollowedRecord(
        b"", op=Op.ADDED, time=evil, group=evil, plural=evil, namespace=evil, name=evil, version=evil, evidence=evil
    )
    lines = TailLines(Colours(on=on))
    for each in (record, FollowedRecord(b"", notice=evil), FollowedRecord(evil.encode(), foreign=True)):
        shown = re.sub(r"\x1b\[\d*m", "", lines.line(each))
        assert shown.isprintable()


def test_a_pipe_that_is_closed_ends_it_quietly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    path = tmp_path / "deltas.ndjson"
    path.write_bytes(b"{}\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("bridge.cli.tail.say_escaped", closed)
        patched.setattr("bridge.cli.terminal.discard_output", lambda: None)
        assert main(["tail", str(path)]) == Exit.OK


# ── What the running bridge commits ──────────────────────────────────────────


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """A configuration whose sink cannot be read."""
    return a_config(tmp_path, sinks={"hook": {"type": "webhook", "url": "http://127.0.0.1:9/"}})


@pytest.mark.parametrize(("words", "asked"), [((), None), (("hook",), "hook")])
async def test_a_bridge_is_followed_and_waited_for(hooked: Path, words: tuple[str, ...], asked: str | None) -> None:
    events = CloudEvents("test")
    state = FakeAdmin()
    state.followed = [
        Followed([msgspec.Raw(events.structured(each)) for each in RECORDS[:3]], dropped=7, rejected=["a/1: no name"])
    ]
    async with tailing(*words, "-c", str(hooked), "--namespace", "data") as tail:
        await tail.complains(b"waiting for a bridge")
        async with AdminServer(hooked.parent / "state", state):
            await tail.prints(b"db-1")
            await tail.complains(b"no event: a/1: no name")
            await tail.complains(b"7 records left out")
            await tail.complains(b"waiting for a bridge")  # It goes on with the next bridge.
    assert ("follow", asked) in state.asked


@pytest.mark.parametrize("words", [["--from-beginning"], ["--since", "5m"], ["--no-follow"]])
async def test_a_bridge_has_no_past_to_show(command: Command, hooked: Path, words: list[str]) -> None:
    ended = await command("tail", "hook", "-c", str(hooked), *words)
    assert (ended.code, ended.out) == (Exit.NO, "")
    assert "from now on alone" in ended.err


async def test_a_sink_of_the_default_file_needs_no_c(
    command: Command, deltas: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEDELTA_CONFIG", str(a_config(tmp_path)))
    assert len(await tailed(command, "copy")) == 7
    assert len(await tailed(command, str(deltas))) == 7, "a file that exists is meant before a sink"


async def test_an_invalid_file_leaves_the_tail_of_the_bridge(command: Command, hooked: Path) -> None:
    with hooked.open("a") as file:
        file.write("x: 1\n")
    state = FakeAdmin()
    state.error = UnknownTarget("here")
    async with AdminServer(hooked.parent / "state", state):
        ended = await command("tail", "hook", "-c", str(hooked))
    assert ("follow", "hook") in state.asked
    assert "x: unknown option" in ended.err
    assert "warning" in ended.err


async def test_a_tail_of_nothing_is_a_usage_error(command: Command) -> None:
    ended = await command("tail")
    assert (ended.code, ended.out) == (Exit.USAGE, "")
    assert "name one with -c, or a file of deltas" in ended.err
