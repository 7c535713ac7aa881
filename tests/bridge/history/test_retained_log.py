"""The log that a bridge retains, as a stream: from a running bridge, from a stopped one, and behind a trim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kubedelta_reader.sources import NoDestination, Unavailable

from bridge.history.retained_log import RetainedLog
from bridge.outbox import Cipher, EncryptionKey, Retention
from tests.bridge.outbox.opened import alter, opened
from tests.kit.informed import Informed

RETAINED = Retention(retain_age=1e6)
CIPHER = Cipher([EncryptionKey(bytes(32))])


async def told(log: RetainedLog) -> Sequence[str]:
    """``op key`` of each record."""
    events = [record.event() async for batch in log.read() for record in batch]
    return [f"{event.op} {event.key}" if event.op else event.type for event in events]


async def test_records_come_from_a_running_bridge_and_from_a_stopped_one(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        pods = await Informed().begin(outbox)
        await pods.exports(outbox, "added shop/a", "updated shop/a", "added shop/b")
        async with RetainedLog(tmp_path, "prod", None) as log:
            assert await told(log) == [
                "added prod/core/pods/shop/a",
                "updated prod/core/pods/shop/a",
                "added prod/core/pods/shop/b",
            ]
            await pods.exports(outbox, "deleted shop/b", position="101")
            assert await told(log) == ["deleted prod/core/pods/shop/b"]
            position = log.position
    async with opened(tmp_path, retention=RETAINED) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "deleted shop/a", position="102")
    async with RetainedLog(tmp_path, "prod", None) as log:
        await log.resume(position)
        assert await told(log) == ["deleted prod/core/pods/shop/a"]
        assert not log.lost


async def test_what_the_bridge_trimmed_before_it_was_read_is_lost(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a", "updated shop/a", "added shop/b")
    async with RetainedLog(tmp_path, "prod", None) as log:
        await told(log)
        position = log.position
    async with opened(tmp_path, retention=RETAINED) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "updated shop/a", "updated shop/b", position="101")
    alter(tmp_path, "UPDATE meta SET log_start = last")
    async with RetainedLog(tmp_path, "prod", None) as log:
        await log.resume(position)
        assert await told(log) == ["updated prod/core/pods/shop/b"]
        assert log.lost
    async with RetainedLog(tmp_path, "prod", None) as another:
        await told(another)
        assert not another.lost, "a history that begins here has lost nothing"


async def test_records_for_single_sinks_are_left_out(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED) as outbox:
        pods = await Informed().begin(outbox)
        await pods.exports(outbox, "added shop/a")
        batch = pods.batch([pods.change("sync shop/a", targets=("audit",))], None)
        pods.offload(batch, await outbox.append(batch))
    async with RetainedLog(tmp_path, "prod", None) as log:
        assert await told(log) == ["added prod/core/pods/shop/a"]


async def test_an_encrypted_log_needs_its_keys(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=RETAINED, cipher=CIPHER) as outbox:
        await (await Informed().begin(outbox)).exports(outbox, "added shop/a")
    with pytest.raises(Unavailable, match="is encrypted; name the configuration with its keys"):
        await RetainedLog(tmp_path, "prod", None).open()
    async with RetainedLog(tmp_path, "prod", CIPHER) as log:
        assert await told(log) == ["added prod/core/pods/shop/a"]


async def test_a_directory_without_a_state_is_told(tmp_path: Path) -> None:
    with pytest.raises(NoDestination, match="no bridge has run in"):
        await RetainedLog(tmp_path, "prod", None).open()
    (tmp_path / "outbox.db").write_bytes(b"no database" * 100)
    with pytest.raises(Unavailable):
        await RetainedLog(tmp_path, "prod", None).open()
    with pytest.raises(ValueError, match="no position"):
        await RetainedLog(tmp_path, "prod", None).resume(b"[]")
