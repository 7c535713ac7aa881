"""A state that an earlier version wrote goes on in this version's format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import apsw
import pytest
import zstandard

from bridge.facts import Fact, OutboxRebuilt, StateMigrated, discard
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.model.status import PauseCause
from bridge.outbox import Outbox, StateUnusable, look_at
from bridge.outbox.log.ledger_sql import PRESENT
from bridge.outbox.storage import migrations
from bridge.outbox.storage.directory_lock import FILE
from bridge.outbox.storage.schema import FORMAT
from tests.bridge.outbox.opened import alter, crashed, feeds_of, joined, opened, rows_of
from tests.bridge.outbox.states.write import CLUSTER, PLAIN
from tests.kit.informed import DEPLOYMENTS, PODS, Informed

STATES = Path(__file__).parent / "states"
CHAT = {"chat": StartPolicy.NOW}
EARLIER = [1, 2, 3, 4, 5, 6, 7, 8]


def unpacked(number: int, directory: Path) -> Path:
    """A directory with the state of this format."""
    directory.mkdir(mode=0o700, exist_ok=True)
    file = directory / FILE
    content = (STATES / f"format-{number}.db.zst").read_bytes()
    file.write_bytes(zstandard.ZstdDecompressor().decompress(content))
    file.chmod(0o600)
    return directory


def sinks(number: int) -> Mapping[str, StartPolicy]:
    return PLAIN if number == 1 else PLAIN | CHAT


async def received(outbox: Outbox, sink: str) -> list[str]:
    feed = feeds_of(outbox).feed(sink)
    found: list[str] = []
    while not feed.exhausted:
        fetch = await feed.take(100)
        found += [f"{each.op} {each.key}" for each in fetch.items if isinstance(each, Delta)]
        feed.settle(fetch)
    return found


def test_every_earlier_format_has_a_state_that_it_wrote() -> None:
    assert sorted(migrations.STEPS) == list(range(1, FORMAT)) == EARLIER
    for number in EARLIER:
        content = zstandard.ZstdDecompressor().decompress((STATES / f"format-{number}.db.zst").read_bytes())
        assert int.from_bytes(content[60:64]) == number, "SQLite's user_version"


@pytest.mark.parametrize("number", EARLIER)
async def test_an_earlier_state_goes_on_where_it_was(tmp_path: Path, number: int) -> None:
    facts: list[Fact] = []
    async with opened(unpacked(number, tmp_path), sinks(number), facts=facts) as outbox:
        assert [each.was for each in facts if isinstance(each, StateMigrated)] == [number]
        assert not (await outbox.check()).problems
        assert (await outbox.check()).cluster == CLUSTER
        assert outbox.last == 5

        known, _ = await outbox.ledger.adopt(PODS, [Scope()])
        checkpoint = known[Scope()]
        assert checkpoint is not None
        assert (list(checkpoint.objects), checkpoint.position) == (["shop/a"], "202")
        informed = await Informed().begin(outbox)
        [deployment] = (await Informed(DEPLOYMENTS).begin(outbox)).known
        await informed.exports(outbox, "updated shop/a", position="203")
        assert deployment == "shop/web"

        assert await received(outbox, "audit") == ["updated shop/a"]
        assert await received(outbox, "slow") == ["added shop/web", "added shop/a", "updated shop/a"]
        assert outbox.sinks["paused"].paused is PauseCause.OPERATOR
        assert await received(outbox, "paused") == [
            "added shop/b",
            "added shop/web",
            "updated shop/a",
            "deleted shop/b",
            "updated shop/a",
        ]
        dead = await outbox.dead_letter(1)
        assert isinstance(dead, Delta)
        assert (dead.key, dead.op, dead.id) == ("shop/a", "added", f"{dead.uid}/{dead.resource_version}/added")

    facts.clear()
    async with opened(tmp_path, sinks(number), facts=facts) as outbox:
        assert not any(isinstance(each, StateMigrated) for each in facts)
        assert not (await outbox.check()).problems


@pytest.mark.parametrize("number", EARLIER)
async def test_an_earlier_state_joins_an_election(tmp_path: Path, number: int) -> None:
    async with opened(unpacked(number, tmp_path), sinks(number)) as outbox:
        settled = {sink: outbox.sinks[sink].settled for sink in PLAIN}
        standby = await joined(outbox)
        informed = await Informed().begin(outbox)
        await standby.take_over(1, None)
        await informed.exports(outbox, "updated shop/a", position="203")

        assert {sink: outbox.sinks[sink].settled for sink in PLAIN} == settled
        assert await received(outbox, "slow") == ["added shop/web", "added shop/a", "updated shop/a"]
        assert await received(outbox, "audit") == ["updated shop/a"]
        assert (standby.term, standby.ahead) == (1, 0)
        assert not (await outbox.check()).problems


async def test_a_sink_of_an_earlier_state_begins_to_select(tmp_path: Path) -> None:
    async with opened(unpacked(1, tmp_path), PLAIN, selecting=["audit"]) as outbox:
        stored = outbox.selections.stored["audit"]
        assert (stored.since, stored.had_all) == (5, True)
        assert rows_of(tmp_path, f"SELECT key, members FROM {PRESENT} ORDER BY seq") == [
            ("shop/web", stored.mask),
            ("shop/a", stored.mask),
        ]


@pytest.mark.parametrize(("number", "effective"), [(2, 5), (3, 0), (4, 0), (6, 0)])
async def test_a_selection_of_an_earlier_state_stays(tmp_path: Path, number: int, effective: int) -> None:
    """``effective``: where an earlier format does not say it, a replay is for later records."""
    async with opened(unpacked(number, tmp_path), PLAIN | CHAT, selecting=["chat"]) as outbox:
        stored = outbox.selections.stored["chat"]
        assert (stored.number, stored.pending, stored.effective) == (1, False, effective)
        assert outbox.sinks.backlog_records("chat") == 2
        assert await received(outbox, "chat") == ["added shop/a", "updated shop/a"]


async def test_a_command_leaves_an_earlier_format_to_the_bridge(tmp_path: Path) -> None:
    before = (unpacked(1, tmp_path) / FILE).read_bytes()
    said = "has format 1, and this version has format .*: the next start of the bridge migrates it"
    with pytest.raises(StateUnusable, match=said):
        await Outbox.open(tmp_path, PLAIN, report=discard, only_existing=True)
    with pytest.raises(StateUnusable, match=said), look_at(tmp_path):
        pass
    assert (tmp_path / FILE).read_bytes() == before


async def test_a_migration_that_fails_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked(1, tmp_path)
    failing = MappingProxyType({**migrations.STEPS, 2: f"{migrations.STEPS[2]} INSERT INTO meta (id) VALUES (1);"})
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "STEPS", failing)
        with pytest.raises(apsw.ConstraintError):
            await Outbox.open(tmp_path, PLAIN, report=discard)
    kept = crashed(tmp_path, tmp_path / "copy")
    for directory in (kept, tmp_path):
        facts: list[Fact] = []
        async with opened(directory, PLAIN, facts=facts) as outbox:
            assert outbox.last == 5
        assert [type(each) for each in facts if isinstance(each, StateMigrated | OutboxRebuilt)] == [StateMigrated]


async def test_tables_that_are_not_of_their_format_are_damage(tmp_path: Path) -> None:
    alter(unpacked(2, tmp_path), "ALTER TABLE selections DROP COLUMN names")
    facts: list[Fact] = []
    async with opened(tmp_path, PLAIN, facts=facts) as outbox:
        assert any("not those of its format 2" in each.reason for each in facts if isinstance(each, OutboxRebuilt))
        assert outbox.last > 5
