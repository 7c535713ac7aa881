"""A copy of the open state, and what an empty directory makes of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridge.model.dead_letter import NewDeadLetter
from bridge.model.primitives.shard import Shard
from bridge.model.versions import frontier
from bridge.outbox import BaseCopy, Cipher, Damaged, EncryptionKey, Installation, StateUnusable, found_in
from bridge.outbox.base_copy import NAME, is_empty
from bridge.outbox.checks.integrity import find_damage
from bridge.outbox.storage.directory_lock import FILE
from tests.bridge.outbox.opened import everything, joined, opened, rows_of
from tests.bridge.outbox.test_standby import SINKS, published, replicas
from tests.kit.informed import Informed

KEY = EncryptionKey(b"a key of thirty-two bytes, at least")


def copied(state: Path) -> bytes:
    copy = BaseCopy(state)
    try:
        while not copy.step():
            pass
        with copy.file() as file:
            return file.read()
    finally:
        copy.close()


def installed(
    content: bytes, directory: Path, cipher: Cipher | None = None, frontier: str = "", shard: Shard | None = None
) -> Path:
    directory.mkdir(exist_ok=True)
    installation = Installation(directory)
    try:
        installation.write(content)
        installation.install(frontier, cipher, shard)
    finally:
        installation.close()
    return directory


async def test_a_copy_is_of_one_moment_while_the_writer_goes_on(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS) as outbox:
        pods = await Informed(padding=10_000).begin(outbox)
        await pods.exports(outbox, *(f"added shop/{number}" for number in range(400)))
        copy = BaseCopy(state, step=1 << 14)
        steps = 0
        while not copy.step():
            steps += 1
            await pods.exports(outbox, f"updated shop/{steps}", f"deleted shop/{399 - steps}")
        with copy.file() as file:
            content = file.read()
        copy.close()
        assert steps > 1, "else nothing was written meanwhile"
        assert not (state / NAME).exists()
    other = installed(content, tmp_path / "other")
    assert find_damage(other / FILE) == ""
    assert stat.S_IMODE((other / FILE).stat().st_mode) == 0o600
    async with opened(other, SINKS) as outbox:
        assert outbox.last == 400
        assert not (await outbox.check()).problems
        again = await Informed().begin(outbox)
        assert len(again.known) == 400


async def test_a_copy_belongs_to_the_replica_that_got_it(tmp_path: Path) -> None:
    async with replicas(tmp_path) as [leader, _]:
        await leader.standby.take_over(4, None)
        [rejected] = await leader.sees("added shop/a", position="110")
        await leader.outbox.sinks.dead_letters["audit"].add_dead_letters([NewDeadLetter(rejected, "no", parked=False)])
        await leader.outbox.maintain()
        births = rows_of(tmp_path / "0", "SELECT birth FROM cursors ORDER BY sink")
        found = published(leader)
        other = installed(copied(tmp_path / "0"), tmp_path / "other", frontier=frontier.encode(found))
        assert rows_of(other, "SELECT term, count(starts.id) FROM meta LEFT JOIN starts") == [(0, 0)]
        assert rows_of(other, "SELECT count(*) FROM dead_letters") == [(0,)]
        assert not set(births) & set(rows_of(other, "SELECT birth FROM cursors ORDER BY sink"))
        async with opened(other, SINKS) as outbox:
            standby = await joined(outbox, "kubedelta-2/1")
            assert standby.term == 4, "the next term is a new one"
            informer = await Informed().begin(outbox)
            assert set(informer.known) == {"shop/a"}
            await leader.delivers("audit")
            await leader.delivers("slow")
            standby.observe(published(leader))
            assert standby.exact("audit"), "without a list of its own"


@pytest.mark.parametrize("shard", [Shard(4, 1), None])
async def test_a_copy_is_of_the_shard_of_both_replicas(tmp_path: Path, shard: Shard | None) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS) as outbox:
        await outbox.ledger.claim(shard)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
        content = copied(state)
    (other := tmp_path / "other").mkdir()
    (other / "shard").write_text('{"of":4,"index":2,"by":"uid"}')
    installed(content, other, shard=shard)
    async with opened(other, SINKS) as outbox:
        await outbox.ledger.claim(shard)
    assert found_in(other) == shard


async def test_a_damaged_copy_leaves_the_directory_empty(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS) as outbox:
        await (await Informed(padding=2000).begin(outbox)).exports(
            outbox, *(f"added shop/{each}" for each in range(50))
        )
        content = copied(state)
    (other := tmp_path / "other").mkdir()
    middle = len(content) // 2
    for wrong in (content[:middle] + b"wrong" + content[middle + 5 :], content[:middle], b"no database" * 1000):
        with pytest.raises((Damaged, StateUnusable)):
            installed(wrong, other)
        assert is_empty(other), "the next try, or the first list, begins there"
    installed(content, other)


async def test_a_copy_needs_the_keys_of_its_content(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS, cipher=Cipher((KEY,))) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
        content = copied(state)
    with pytest.raises(Damaged, match=r"which is not in state\.encryption"):
        installed(content, tmp_path / "other")
    installed(content, tmp_path / "other", Cipher((KEY,)))
    async with opened(tmp_path / "other", SINKS, cipher=Cipher((KEY,))) as outbox:
        assert len(await everything(outbox)) == 1


def test_a_directory_with_a_state_is_not_empty(tmp_path: Path) -> None:
    assert is_empty(tmp_path)
    (tmp_path / NAME).touch()
    assert is_empty(tmp_path), "what a killed leader left there"
    (tmp_path / f"{FILE}-wal").touch()
    assert not is_empty(tmp_path)
    assert not is_empty(tmp_path / "missing")
