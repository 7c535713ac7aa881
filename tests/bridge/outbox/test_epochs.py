"""Epochs: an id is used once in each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bridge.model.policies import StartPolicy
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.storage.directory_lock import FILE
from tests.bridge.outbox.opened import alter, crashed, everything, opened
from tests.kit.follower import Follower, Server, followers
from tests.kit.records import DEPLOYMENTS, PODS

ALL, SHOP, PROD = Scope(), Scope("shop"), Scope("prod")
WEB = Scope("shop", "web")
NOW = {"audit": StartPolicy.NOW}


def a_server(*keys: str) -> Server:
    server = Server()
    for key in keys:
        server.put(key)
    return server


async def look(outbox: Outbox, server: Server, *scopes: Scope) -> dict[Scope, Follower]:
    """The bridge starts with these scopes of pods, and exports the objects that it finds."""
    found = await followers(outbox, server, scopes)
    for follower in found.values():
        await follower.look()
    return found


async def exported(outbox: Outbox) -> list[str]:
    """``epoch op key`` of everything; each with an id of its own."""
    deltas = [record for record in await everything(outbox) if isinstance(record, Delta)]
    assert len({delta.unique_id for delta in deltas}) == len(deltas)
    return [f"{delta.epoch} {delta.op} {delta.key}" for delta in deltas]


async def in_lives(directory: Path, server: Server, *lives: Sequence[Scope]) -> list[str]:
    for scopes in lives:
        async with opened(directory, NOW) as outbox:
            await look(outbox, server, *scopes)
            found = await exported(outbox)
            assert (await outbox.check()).problems == []
    return found


def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


# ── Parts that leave and come back ───────────────────────────────────────────


@pytest.mark.parametrize(
    ("lives", "found"),
    [
        (
            [(SHOP, PROD), (SHOP,), (SHOP, PROD), (SHOP,), (SHOP, PROD)],
            ["1 deleted prod/web", "2 added prod/web", "2 deleted prod/web", "3 added prod/web"],
        ),
        (
            [(ALL,), (), (ALL,)],
            ["1 deleted shop/api", "1 deleted prod/web", "2 added shop/api", "2 added prod/web"],
        ),
        (
            [(SHOP, PROD), (WEB, PROD), (SHOP, PROD), (WEB, PROD)],
            ["2 deleted shop/api", "3 added shop/api", "4 deleted shop/api"],
        ),
    ],
    ids=["a part", "the whole resource", "what a selector excludes"],
)
async def test_what_leaves_and_returns_begins_an_epoch_alone(
    tmp_path: Path, lives: Sequence[Sequence[Scope]], found: list[str]
) -> None:
    first = ["1 added shop/api", "1 added prod/web"]
    assert await in_lives(tmp_path, a_server("shop/api", "prod/web"), *lives) == [*first, *found]
    async with opened(tmp_path, NOW) as outbox:
        known, _ = await outbox.ledger.adopt(DEPLOYMENTS, [ALL])
    assert known == {ALL: None}, "another resource has epochs of its own"


async def test_a_part_beside_one_that_returns_goes_on_in_its_epoch(tmp_path: Path) -> None:
    server = a_server("shop/web", "prod/web")
    await in_lives(tmp_path, server, (SHOP,), (SHOP, PROD), (SHOP,), (SHOP, PROD))
    server.put("shop/web")

    assert await in_lives(tmp_path, server, (SHOP, PROD)) == [
        "1 added shop/web",
        "1 added prod/web",
        "1 deleted prod/web",
        "2 added prod/web",
        "1 updated shop/web",
    ]


async def test_an_epoch_is_not_forgotten_with_the_part_that_was_in_it(tmp_path: Path) -> None:
    server = a_server("shop/web")
    earlier = server.backup()
    server.put("shop/web")
    await in_lives(tmp_path, server, (ALL,))
    server.restore(earlier)
    found = await in_lives(tmp_path, server, (ALL,), (), (ALL,))

    assert found == [
        "1 added shop/web",
        "2 updated shop/web",
        "2 deleted shop/web",
        "3 added shop/web",
    ]


async def test_split_and_joined_parts_begin_a_fresh_epoch(tmp_path: Path) -> None:
    server = a_server("shop/web", "prod/web")
    earlier = server.backup()
    server.put("shop/web")
    async with opened(tmp_path, NOW) as outbox:
        parts = await look(outbox, server, SHOP, PROD)
        server.restore(earlier)
        await parts[SHOP].look()
        assert (parts[SHOP].epoch, parts[PROD].epoch) == (2, 1)
    server.put("prod/web")
    server.put("shop/web")

    assert (await in_lives(tmp_path, server, (ALL,)))[-2:] == ["3 updated shop/web", "3 updated prod/web"]
    server.put("prod/web")
    assert (await in_lives(tmp_path, server, (SHOP, PROD)))[-1] == "4 updated prod/web"


async def test_one_that_is_given_back_though_some_of_it_had_left(tmp_path: Path) -> None:
    """The bridge is killed between."""
    server = a_server(*(f"prod/p{number}" for number in range(700)), "shop/web")
    await in_lives(tmp_path, server, (SHOP, PROD))
    async with opened(tmp_path, NOW, committed=lambda _records, _last: cancel(killed)) as outbox:
        async with asyncio.TaskGroup() as tasks:
            killed = tasks.create_task(outbox.ledger.adopt(PODS, [SHOP]))
        left = crashed(tmp_path, tmp_path / "left")

    found = await in_lives(left, server, (SHOP, PROD))
    assert found[701:] == [
        *(f"1 deleted prod/p{number}" for number in range(500)),
        *(f"2 added prod/p{number}" for number in range(500)),
    ]


async def test_who_must_list_begins_in_the_epoch_of_those_that_begin(tmp_path: Path) -> None:
    """The deletes exported before an end in the middle are unknown."""
    server = a_server("shop/web", "shop/api", "prod/web")
    await in_lives(tmp_path, server, (SHOP, PROD), (SHOP,))
    server.put("shop/web")
    server.put("shop/api")
    async with opened(tmp_path, NOW) as outbox:
        await (await followers(outbox, server, [SHOP]))[SHOP].look(1)

    assert (await in_lives(tmp_path, server, (SHOP,)))[-2:] == ["1 updated shop/web", "2 updated shop/api"]


# ── Resources that go and come back ──────────────────────────────────────────


async def test_a_resource_that_was_away_comes_back_in_a_later_epoch(tmp_path: Path) -> None:
    server = a_server("shop/web")
    async with opened(tmp_path, NOW) as outbox:
        for _ in range(2):
            part = (await look(outbox, server, ALL))[ALL]
            async with outbox.ledger.removing(PODS, ALL):
                await part.remove()
        await look(outbox, server, ALL)

        assert await exported(outbox) == [
            "1 added shop/web",
            "1 deleted shop/web",
            "2 added shop/web",
            "2 deleted shop/web",
            "3 added shop/web",
        ]


@pytest.mark.parametrize("most", [1, 2])
async def test_a_returned_part_begins_an_epoch_despite_a_kill(tmp_path: Path, most: int) -> None:
    server = a_server("shop/web", "shop/api")
    async with opened(tmp_path, NOW) as outbox:
        part = (await look(outbox, server, ALL))[ALL]
        async with outbox.ledger.removing(PODS, ALL):
            await part.remove(most)
            left = crashed(tmp_path, tmp_path / "left")
    gone = ["shop/web", "shop/api"][:most]

    found = await in_lives(left, server, (ALL,))
    assert found[2:] == [*(f"1 deleted {key}" for key in gone), *(f"2 added {key}" for key in gone)]


async def test_a_returned_part_begins_an_epoch_despite_a_restore(tmp_path: Path) -> None:
    server = a_server("shop/web")
    there = server.backup()
    async with opened(tmp_path, NOW) as outbox:
        part = (await look(outbox, server, ALL))[ALL]
        server.delete("shop/web")
        await part.look()
        async with outbox.ledger.removing(PODS, ALL):
            await part.remove()
        server.restore(there)
        await look(outbox, server, ALL)

        assert await exported(outbox) == ["1 added shop/web", "1 deleted shop/web", "2 added shop/web"]


async def test_deletes_that_the_server_said_advance_nothing(tmp_path: Path) -> None:
    server = a_server("shop/web")
    async with opened(tmp_path, NOW) as outbox:
        part = (await look(outbox, server, ALL))[ALL]
        server.delete("shop/web")
        await part.look()
        server.put("shop/web")
        await part.look()
    server.put("prod/web")

    assert (await in_lives(tmp_path, server, (ALL,)))[1:] == [
        "1 deleted shop/web",
        "1 added shop/web",
        "1 added prod/web",
    ]


# ── A database that was rebuilt ──────────────────────────────────────────────


async def test_a_rebuilt_database_goes_beyond_every_known_epoch(tmp_path: Path) -> None:
    server = a_server("shop/web")
    await in_lives(tmp_path, server, (ALL,), (), (ALL,))
    for number in (3, 4):
        (tmp_path / f"{FILE}.damaged").write_text("a page makes no sense")
        assert await in_lives(tmp_path, server, (ALL,)) == [f"{number} sync shop/web"]
    async with opened(tmp_path, NOW) as outbox:
        known, _ = await outbox.ledger.adopt(DEPLOYMENTS, [ALL])
    assert (found := known[ALL]) is not None
    assert (found.epoch, found.is_blank) == (4, True), "earlier exports are unknown for every resource"


async def test_unreadable_epochs_of_a_damaged_file_use_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = a_server("shop/web")
    await in_lives(tmp_path, server, (ALL,))
    epochs: list[int] = []
    for harm in ("DROP TABLE informers", "DROP TABLE kinds", "UPDATE meta SET epoch = 1 << 40"):
        now = 1_800_000_000 + 1000 * len(epochs)
        monkeypatch.setattr("bridge.outbox.opening.time_ns", lambda now=now: now * 10**9)
        alter(tmp_path, f"PRAGMA foreign_keys = OFF; {harm}")
        (tmp_path / f"{FILE}.damaged").write_text("a page makes no sense")
        [found] = await in_lives(tmp_path, server, (ALL,))
        epochs.append(int(found.split()[0]))

    assert epochs == [32_774_400, 32_775_400, 32_776_400], "seconds of 2026 and after"
