"""A state of an earlier format goes on in the format of the next version."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path

import apsw
import pytest

from bridge.outbox import Outbox, StateUnusable, UnknownFormat, look_at
from bridge.outbox.copied_state import CopiedState
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.schema import FORMAT
from bridge.telemetry.facts import Fact, discard
from bridge.telemetry.facts.outbox import OutboxRebuilt, StateMigrated
from tests.bridge.outbox.opened import AUDIT, alter, crashed, opened, rows_of
from tests.kit.informed import Informed
from tests.kit.next_version import ANOTHER_COLUMN, next_version


async def a_state(directory: Path) -> int:
    """Written by this version. Returns the number of the last record."""
    async with opened(directory) as outbox:
        informed = await Informed().begin(outbox)
        await informed.exports(outbox, "added shop/a", "added shop/b")
        return outbox.last


async def test_an_earlier_state_goes_on_where_it_was(tmp_path: Path) -> None:
    last = await a_state(tmp_path)
    facts: list[Fact] = []
    with next_version():
        for migrated in ([FORMAT], []):
            facts.clear()
            async with opened(tmp_path, facts=facts) as outbox:
                assert [each.was for each in facts if isinstance(each, StateMigrated)] == migrated
                assert not (await outbox.check()).problems
                assert outbox.last == last
                assert sorted((await Informed().begin(outbox)).known) == ["shop/a", "shop/b"]
        assert rows_of(tmp_path, "SELECT name, colour FROM kinds") == [("pods", "blue")]


async def test_a_command_leaves_an_earlier_format_to_the_bridge(tmp_path: Path) -> None:
    await a_state(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    said = f"has format {FORMAT}, and this version has format {FORMAT + 1}: the next start of the bridge migrates it"
    with next_version():
        with pytest.raises(StateUnusable, match=said):
            await Outbox.open(tmp_path, AUDIT, report=discard, only_existing=True)
        with pytest.raises(StateUnusable, match=said), look_at(tmp_path):
            pass
    assert (tmp_path / FILE).read_bytes() == before


async def test_a_migration_that_fails_leaves_the_file(tmp_path: Path) -> None:
    last = await a_state(tmp_path)
    with next_version(f"{ANOTHER_COLUMN} INSERT INTO meta (id) VALUES (1);"), pytest.raises(apsw.ConstraintError):
        await Outbox.open(tmp_path, AUDIT, report=discard)
    with next_version():
        for directory in (crashed(tmp_path, tmp_path / "copy"), tmp_path):
            facts: list[Fact] = []
            async with opened(directory, facts=facts) as outbox:
                assert outbox.last == last
            assert [type(each) for each in facts if isinstance(each, StateMigrated | OutboxRebuilt)] == [StateMigrated]


async def test_tables_that_are_not_of_their_format_are_damage(tmp_path: Path) -> None:
    last = await a_state(tmp_path)
    alter(tmp_path, "ALTER TABLE selections DROP COLUMN names")
    facts: list[Fact] = []
    with next_version():
        async with opened(tmp_path, facts=facts) as outbox:
            reasons = [each.reason for each in facts if isinstance(each, OutboxRebuilt)]
            assert any(f"not those of its format {FORMAT}" in each for each in reasons)
            assert outbox.last > last


async def test_a_newer_format_is_refused_by_name_by_a_bridge_and_a_follower(tmp_path: Path) -> None:
    """A base copy of the leader would take the place of everything in there."""
    with next_version():
        last = await a_state(tmp_path)
    said = f"has format {FORMAT + 1}, written by another kubedelta; .* {FORMAT}:"
    with pytest.raises(UnknownFormat, match=said):
        await Outbox.open(tmp_path, AUDIT, report=discard)
    with pytest.raises(UnknownFormat, match=said):
        CopiedState(tmp_path)
    with next_version():
        async with opened(tmp_path) as outbox:
            assert outbox.last == last


async def test_a_follower_refuses_what_is_no_state_by_name(tmp_path: Path) -> None:
    with closing(apsw.Connection(str(tmp_path / FILE))) as connection:
        connection.execute("CREATE TABLE theirs (id)")
    with pytest.raises(UnknownFormat, match="is a database, but none of kubedelta's: move it away"):
        CopiedState(tmp_path)
    assert rows_of(tmp_path, "SELECT count(*) FROM theirs") == [(0,)]


async def test_a_follower_gets_a_copy_for_a_lost_header(tmp_path: Path) -> None:
    await a_state(tmp_path)
    alter(tmp_path, "PRAGMA application_id = 0")
    with closing(CopiedState(tmp_path)) as state:
        assert (state.format, state.history().point) == (0, None)


@pytest.mark.parametrize("ours", [FORMAT, FORMAT + 1])
async def test_a_follower_takes_a_copy_that_it_can_migrate(tmp_path: Path, ours: int) -> None:
    (tmp_path / "leader").mkdir()
    (tmp_path / "follower").mkdir(mode=0o700)
    with next_version() if ours == FORMAT else nullcontext():
        await a_state(tmp_path / "leader")
    content = (tmp_path / "leader" / FILE).read_bytes()
    with next_version() if ours > FORMAT else nullcontext(), closing(CopiedState(tmp_path / "follower")) as state:
        state.begin_incoming()
        state.write_incoming(content)
        if ours > FORMAT:
            state.install(None, None)
            assert state.format == FORMAT
        else:
            with pytest.raises(UnknownFormat, match=f"the copy of the leader's state .* has format {FORMAT + 1}, "):
                state.install(None, None)
            assert state.format == 0
