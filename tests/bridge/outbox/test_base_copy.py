"""A copy of the open state, and what a follower's directory makes of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridge.model.primitives.shard import Shard
from bridge.outbox import BaseCopy, Cipher, Damaged, EncryptionKey, StateError, StateUnusable, shard_in
from bridge.outbox.copied_state import NAME, CopiedState
from bridge.outbox.integrity import find_damage
from bridge.outbox.storage.directory_lock import FILE
from tests.bridge.outbox.opened import AUDIT as SINKS
from tests.bridge.outbox.opened import everything, opened
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


def installed(content: bytes, directory: Path, cipher: Cipher | None = None, shard: Shard | None = None) -> Path:
    directory.mkdir(exist_ok=True)
    state = CopiedState(directory)
    try:
        state.begin_incoming()
        state.write_incoming(content)
        state.install(cipher, shard)
    finally:
        state.close()
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


async def test_a_copy_larger_than_the_page_cache_has_checksums(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS) as outbox:
        pods = await Informed(noise=10_000).begin(outbox)
        await pods.exports(outbox, *(f"added shop/{number}" for number in range(400)))
        content = copied(state)
    assert len(content) > 4 << 20, "else nothing of it was written before its first page"
    assert find_damage(installed(content, tmp_path / "other") / FILE) == ""


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
    assert shard_in(other) == shard


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
        with pytest.raises((Damaged, StateError)):
            installed(wrong, other)
        assert not (other / FILE).exists(), "the next try begins there"
    installed(content, other)


async def test_a_copy_needs_the_keys_of_its_content(tmp_path: Path) -> None:
    (state := tmp_path / "state").mkdir()
    async with opened(state, SINKS, cipher=Cipher((KEY,))) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
        content = copied(state)
    with pytest.raises(StateUnusable, match=r"give state\.encryption that key"):
        installed(content, tmp_path / "other")
    installed(content, tmp_path / "other", Cipher((KEY,)))
    async with opened(tmp_path / "other", SINKS, cipher=Cipher((KEY,))) as outbox:
        assert len(await everything(outbox)) == 1
