"""The state directory remembers its shard, and is refused to another."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.primitives.shard import Shard, ShardBy
from bridge.model.record import Snapshot
from bridge.outbox import OtherShard, Outbox, StateUnusable, shard_in
from bridge.telemetry.facts import discard
from tests.kit.informed import Informed
from tests.kit.pipelines import opened_feeds

ONE, OTHER = Shard(4, 1), Shard(4, 2)


async def claimed(folder: Path, shard: Shard | None, *, used: bool = True) -> None:
    """A start for this shard. ``used``: an informer runs."""
    async with await Outbox.open(folder, {}, report=discard) as outbox:
        await outbox.ledger.claim(shard)
        if used:
            await Informed().begin(outbox)


async def test_a_state_remembers_its_shard(tmp_path: Path) -> None:
    await claimed(tmp_path, ONE)

    assert shard_in(tmp_path) == ONE
    assert stat.S_IMODE((tmp_path / "shard").stat().st_mode) == 0o600
    await claimed(tmp_path, ONE)


async def test_a_state_of_all_objects_has_no_file(tmp_path: Path) -> None:
    await claimed(tmp_path, None)

    assert shard_in(tmp_path) is None
    assert not (tmp_path / "shard").exists()


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        (ONE, OTHER, ("shard 1 of 4 by uid", "shard 2 of 4 by uid")),
        (ONE, Shard(4, 1, ShardBy.NAMESPACE), ("shard 1 of 4 by uid", "shard 1 of 4 by namespace")),
        (ONE, Shard(8, 2), ("shard 1 of 4 by uid", "shard 2 of 8 by uid")),
        (ONE, None, ("shard 1 of 4 by uid", "for all shards")),
        (None, ONE, ("objects of all shards", "shard 1 of 4 by uid")),
    ],
)
async def test_a_start_for_another_shard_is_refused(
    tmp_path: Path, was: Shard | None, now: Shard | None, words: tuple[str, str]
) -> None:
    await claimed(tmp_path, was)

    with pytest.raises(OtherShard, match=f"{words[0]}.*{words[1]}.*empty directory"):
        await claimed(tmp_path, now)
    assert shard_in(tmp_path) == was


async def test_a_state_without_objects_may_become_that_of_a_shard(tmp_path: Path) -> None:
    for shard in (None, ONE, OTHER, None):
        await claimed(tmp_path, shard, used=False)
        assert shard_in(tmp_path) == shard


async def test_a_kill_while_the_file_is_written_leaves_the_former(tmp_path: Path) -> None:
    await claimed(tmp_path, ONE)
    (tmp_path / "shard.new").write_text('{"of":4,')

    await claimed(tmp_path, ONE)
    assert shard_in(tmp_path) == ONE


@pytest.mark.parametrize("content", ["", '{"of":3,"index":0}', "\xff", '{"of":4,"index":4,"by":"uid"}'])
async def test_an_unreadable_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    await claimed(tmp_path, ONE)
    (tmp_path / "shard").write_text(content, encoding="latin-1")

    with pytest.raises(StateUnusable, match="the file shard cannot be read"):
        await claimed(tmp_path, ONE)


async def test_a_link_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    await claimed(tmp_path, ONE)
    (tmp_path / "shard").rename(tmp_path / "elsewhere")
    (tmp_path / "shard").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StateUnusable, match="shard is no regular file"):
        await claimed(tmp_path, ONE)


async def test_objects_of_other_shards_are_a_problem_of_the_state(tmp_path: Path) -> None:
    async with await Outbox.open(tmp_path, {}, report=discard) as outbox:
        await outbox.ledger.claim(ONE)
        informed = await Informed().begin(outbox)
        await informed.exports(outbox, *[f"added shop/web-{number}" for number in range(40)])
        found = await outbox.check()

    own = [known for key, known in informed.known.items() if ONE.contains(known.uid, key)]
    assert found.shard == "shard 1 of 4 by uid"
    assert found.problems == [f"{40 - len(own)} objects are not of shard 1 of 4 by uid, whose objects the state has"]


async def test_the_records_of_a_snapshot_name_the_shard(tmp_path: Path) -> None:
    async with await Outbox.open(tmp_path, {}, report=discard) as outbox:
        await outbox.ledger.claim(ONE)
        await (await Informed().begin(outbox)).exports(outbox, "added shop/web")
    feeds = await opened_feeds(tmp_path, {"audit": StartPolicy.SNAPSHOT}, report=discard, shard=ONE)
    async with feeds.outbox:
        fetch = await feeds.feed("audit").take(10)

    edges = [each for each in fetch.items if isinstance(each, Snapshot)]
    assert [each.only.shard for each in edges if each.only is not None] == [ONE] * len(edges) != []
    assert [each.id for each in edges] == ["snapshot/1-of-4/audit/1/began", "snapshot/1-of-4/audit/1/ended"]
    assert [each.snapshot for each in fetch.items] == ["snapshot/1-of-4/audit/1"] * 3
