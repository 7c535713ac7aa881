"""The state directory: its owner, and its content."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import apsw
import pytest

from bridge.model.policies import StartPolicy
from bridge.outbox import Outbox
from bridge.outbox.errors import Damaged, StateError, StateUnusable, UnknownFormat
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.schema import FORMAT
from bridge.outbox.storage.state_directory import StateDirectory
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.outbox import OutboxOpened
from tests.bridge.outbox.opened import alter, everything, opened
from tests.kit.commands import child
from tests.kit.deadlines import BUSY
from tests.kit.informed import Informed
from tests.kit.small_disk import CannotMount, mounted_small_disk

HOLD = """
import signal, sys
from pathlib import Path
from bridge.outbox.storage.state_directory import StateDirectory
holder = StateDirectory(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


def files_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


async def refused(directory: Path) -> str:
    with pytest.raises(StateError) as caught:
        async with opened(directory):
            pass
    return str(caught.value)


async def test_an_empty_directory_becomes_a_state(tmp_path: Path) -> None:
    facts: list[Fact] = []
    async with opened(tmp_path, facts=facts) as outbox:
        assert (outbox.last, outbox.first, outbox.records, outbox.size) == (0, 1, 0, 0)
        assert (await outbox.check()).problems == []

    [fact] = facts
    assert isinstance(fact, OutboxOpened)
    assert fact.sqlite.startswith("3.")


KILLED_WHILE_MAKING = """
import os, signal, sys
from pathlib import Path
from bridge.outbox import opening
from bridge.outbox.storage import schema
from bridge.outbox.storage.state_directory import StateDirectory

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

match sys.argv[2]:
    case "without tables":
        schema.prepare = kill
    case "with tables in its log":
        prepare = schema.prepare
        schema.prepare = lambda database: (prepare(database), kill())
    case "whole, under another name":
        StateDirectory.finish_file = kill
opening.open_state(Path(sys.argv[1]), {}, "now", behind=0)
"""


@pytest.mark.parametrize("left", ["without tables", "with tables in its log", "whole, under another name"])
async def test_a_kill_while_the_state_is_made_is_no_damage(tmp_path: Path, left: str) -> None:
    with child(KILLED_WHILE_MAKING, str(tmp_path), left) as making:
        assert making.process.wait(30 * BUSY) == -signal.SIGKILL
    assert not (tmp_path / FILE).exists()

    facts: list[Fact] = []
    async with opened(tmp_path, facts=facts) as outbox:
        assert outbox.last == 0
    assert [type(fact) for fact in facts] == [OutboxOpened]
    assert files_in(tmp_path) == ["lock", FILE]


async def test_exported_objects_are_known_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        informer = await Informed().begin(outbox)
        await informer.exports(outbox, "added shop/web", "added shop/db", "updated shop/web")
        before = await everything(outbox)

    facts: list[Fact] = []
    async with opened(tmp_path, facts=facts) as outbox:
        assert await everything(outbox) == before
        assert (await Informed().begin(outbox)).known == informer.known
    assert any(isinstance(fact, OutboxOpened) and (fact.records, fact.objects) == (3, 2) for fact in facts)


# ── The directory ────────────────────────────────────────────────────────────


async def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "state"

    assert await refused(missing) == (f"state.directory: {missing} does not exist: make it, or mount a volume there")


async def test_a_file_is_no_directory(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.touch()

    assert "is no directory" in await refused(file)


async def test_a_directory_in_which_nothing_may_be_written_is_refused(tmp_path: Path) -> None:
    try:
        with mounted_small_disk(tmp_path / "disk") as disk:
            async with opened(disk.folder):
                pass
            disk.make_read_only()
            said = await refused(disk.folder)
    except CannotMount as error:
        pytest.skip(f"no small disk can be mounted here: {error}")

    assert said == f"state.directory: cannot write in {disk.folder}: Read-only file system"


async def test_a_directory_has_one_process_and_another_learns_which(tmp_path: Path) -> None:
    with child(HOLD, str(tmp_path)) as holder:
        assert holder.output.readline() == b"held\n"
        assert f"held by another process ({holder.process.pid})" in await refused(tmp_path)

    async with opened(tmp_path):  # The kernel released the locks of the dead process.
        pass


async def test_whoever_was_refused_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    tell_elsewhere(tmp_path, "PRAGMA user_version = 99; PRAGMA application_id = 1802792052")
    await refused(tmp_path)

    StateDirectory(tmp_path).release()


# ── As it is ─────────────────────────────────────────────────────────────────


async def looked_at(directory: Path) -> Outbox:
    facts: list[Fact] = []
    return await Outbox.open(directory, {"new": StartPolicy.SNAPSHOT}, report=facts.append, only_existing=True)


async def test_who_only_looks_makes_no_state(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match=r"there is no outbox.db in .*: no bridge has run on it"):
        await looked_at(tmp_path)
    assert names_in(tmp_path) == ["lock"]


async def test_who_only_looks_begins_no_sink(tmp_path: Path) -> None:
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
    async with await looked_at(tmp_path) as outbox:
        assert [(cursor.sink, cursor.configured) for cursor in outbox.sinks.all] == [("audit", False)]
        assert outbox.last == 1


async def test_who_only_looks_moves_nothing_aside(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    (tmp_path / f"{FILE}.damaged").write_text("a page makes no sense")
    before = names_in(tmp_path)

    with pytest.raises(Damaged, match=r"a page makes no sense.*the next start moves it aside"):
        await looked_at(tmp_path)
    assert names_in(tmp_path) == before


async def test_a_running_bridge_is_not_looked_at_behind_its_back(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with pytest.raises(StateUnusable, match="is held by another process"):
            await looked_at(tmp_path)


# ── The file ─────────────────────────────────────────────────────────────────


def names_in(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


def tell_elsewhere(directory: Path, script: str) -> None:
    """In a database that kubedelta did not make."""
    connection = sqlite3.connect(directory / FILE)
    connection.executescript(script)
    connection.close()


@pytest.mark.parametrize("number", [0, FORMAT - 1, FORMAT + 1])
async def test_another_format_is_refused_by_its_number(tmp_path: Path, number: int) -> None:
    async with opened(tmp_path):
        pass
    alter(tmp_path, f"CREATE TABLE newer (one); PRAGMA user_version = {number}")

    said = await refused(tmp_path)

    assert (
        f"has format {number}, written by another kubedelta; this version reads the formats from {FORMAT} to {FORMAT}"
        in said
    )


async def test_a_database_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    tell_elsewhere(tmp_path, "CREATE TABLE theirs (one INTEGER)")
    before = (tmp_path / FILE).read_bytes()

    with pytest.raises(UnknownFormat, match=r"none of kubedelta's: move it away"):
        async with opened(tmp_path):
            pass

    assert (tmp_path / FILE).read_bytes() == before
    assert names_in(tmp_path) == ["lock", FILE]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (apsw.ReadOnlyError("attempt to write a readonly database"), "cannot write"),
        (apsw.FullError("database or disk is full"), "database or disk is full"),
        (apsw.IOError("disk I/O error"), "disk I/O error"),
    ],
)
async def test_a_disk_that_takes_nothing_at_the_start_is_said_and_no_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: apsw.Error, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("bridge.outbox.storage.schema.prepare", fail)

    with pytest.raises(StateUnusable, match=said):
        async with opened(tmp_path):
            pass


async def test_a_start_writes_nothing_where_nothing_is_new(tmp_path: Path) -> None:
    """So deliveries go on even on a full disk."""
    async with opened(tmp_path) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")

    async with opened(tmp_path) as outbox:
        assert outbox.disk().wal == 0
