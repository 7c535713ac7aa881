"""An id of a source is exported once, whatever becomes of scopes, resources, the server's history and the bridge."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.model.change import Op
from bridge.model.policies import StartPolicy
from bridge.model.record import Delta, Record
from bridge.model.resource import Scope
from bridge.outbox import Outbox
from bridge.outbox.outbox import Committed
from bridge.outbox.storage.directory_lock import FILE
from bridge.telemetry.facts import discard
from tests.kit import memory
from tests.kit.deadlines import run_bounded
from tests.kit.examples import examples
from tests.kit.follower import Backup, Follower, Server, followers
from tests.kit.records import PODS

KEYS = ("shop/web", "shop/api", "prod/web", "prod/api")
ALL, SHOP, PROD, WEB = Scope(), Scope("shop"), Scope("prod"), Scope("shop", "web")
CONFIGURED = ((ALL,), (SHOP,), (PROD,), (SHOP, PROD), (WEB,), (WEB, PROD), ())

SCOPES = st.sampled_from(CONFIGURED)
CUT = st.none() | st.integers(0, 3)
"""How much of something is done before the bridge is killed; None for all."""


@pytest.fixture(autouse=True)
def orphans_leave_one_by_one_and_damages_are_an_hour_apart() -> Iterator[None]:
    hours = count(1_800_000_000 * 10**9, 3600 * 10**9)
    with (
        patch("bridge.outbox.ledger._AT_ONCE", 1),
        patch("bridge.outbox.opening.time_ns", side_effect=lambda: next(hours)),
    ):
        yield


class Killed(Exception):
    pass


class IdentityMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="identity-", dir=memory.folder()))
        self.directories = (self.root / str(number) for number in count())
        self.directory = next(self.directories)
        self.directory.mkdir()
        self.server = Server()
        self.backups: list[Backup] = []
        self.scopes: tuple[Scope, ...] = ()
        self.followers: dict[Scope, Follower] = {}
        self.received: dict[str, Delta] = {}
        self.stream: list[Delta] = []
        self.on_commit: Committed = self.commit
        self.repeated: list[tuple[Delta, Delta]] = []
        self.outbox: Outbox

    def run(self, what: Coroutine[Any, Any, None]) -> None:
        run_bounded(self.runner, what)

    @initialize(scopes=SCOPES, keys=st.sets(st.sampled_from(KEYS)))
    def begin(self, scopes: tuple[Scope, ...], keys: set[str]) -> None:
        for key in sorted(keys):
            self.server.put(key)
        self.run(self.open(scopes))

    def teardown(self) -> None:
        try:
            if hasattr(self, "outbox"):
                self.run(self.outbox.close())
        finally:
            self.runner.close()
            shutil.rmtree(self.root)

    # ── The bridge ───────────────────────────────────────────────────────────

    async def open(self, scopes: tuple[Scope, ...], killed_after: int | None = None) -> None:
        """With ``killed_after`` so many objects that left were exported, and again."""
        await self.open_outbox()
        if killed_after is not None:
            await self.adopt_in_part(scopes, killed_after)
            self.followers = {}
            await self.kill()
            return
        self.scopes = scopes
        self.followers = await followers(self.outbox, self.server, scopes)

    async def open_outbox(self) -> None:
        self.outbox = await Outbox.open(
            self.directory,
            {"audit": StartPolicy.NOW},
            report=discard,
            committed=lambda records, last: self.on_commit(records, last),
        )

    async def adopt_in_part(self, scopes: tuple[Scope, ...], most: int) -> None:
        left = count(1)

        def commit(records: Sequence[Record], last: int) -> None:
            self.commit(records, last)
            if next(left) >= most:
                adopting.cancel()

        self.on_commit = commit
        async with asyncio.TaskGroup() as tasks:
            adopting = tasks.create_task(self.outbox.ledger.adopt(PODS, scopes))
        self.on_commit = self.commit

    def commit(self, records: Sequence[Record], _last: int) -> None:
        for delta in records:
            assert isinstance(delta, Delta)
            if (before := self.received.setdefault(delta.unique_id, delta)) is not delta:
                self.repeated.append((before, delta))
            self.stream.append(delta)

    async def kill(self) -> None:
        left = next(self.directories)
        left.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(self.directory / f"{FILE}{suffix}", left)
        await self.outbox.close()
        self.directory = left
        await self.open_outbox()

    async def look(self) -> None:
        for follower in self.followers.values():
            await follower.look()

    # ── What happens ─────────────────────────────────────────────────────────

    @rule(key=st.sampled_from(KEYS))
    def put(self, key: str) -> None:
        self.server.put(key)

    @rule(key=st.sampled_from(KEYS))
    def delete(self, key: str) -> None:
        if key in self.server.objects:
            self.server.delete(key)

    @rule()
    def back_up(self) -> None:
        self.backups.append(self.server.backup())

    @rule()
    def export(self) -> None:
        self.run(self.look())

    @precondition(lambda self: self.followers)
    @rule(data=st.data(), most=st.integers(0, 3))
    def is_killed_while_it_exports(self, data: st.DataObject, most: int) -> None:
        async def killed() -> None:
            await self.followers[data.draw(st.sampled_from(self.scopes))].look(most)
            await self.kill()
            self.followers = await followers(self.outbox, self.server, self.scopes)

        self.run(killed())

    @rule(scopes=SCOPES, killed_after=CUT, again=SCOPES)
    def is_configured(self, scopes: tuple[Scope, ...], killed_after: int | None, again: tuple[Scope, ...]) -> None:
        async def configured() -> None:
            await self.outbox.close()
            await self.open(scopes, killed_after)
            if killed_after is not None:
                await self.outbox.close()
                await self.open(again)

        self.run(configured())

    @rule(scopes=SCOPES, back=st.booleans())
    def is_configured_and_exports(self, scopes: tuple[Scope, ...], back: bool) -> None:
        async def configured() -> None:
            before = self.scopes
            for each in (scopes, before) if back else (scopes,):
                await self.outbox.close()
                await self.open(each)
                await self.look()

        self.run(configured())

    @rule(most=CUT)
    def resource_goes_and_comes_back(self, most: int | None) -> None:
        async def gone() -> None:
            with suppress(Killed):
                for scope, follower in self.followers.items():
                    async with self.outbox.ledger.removing(PODS, scope):
                        await follower.remove(most)
                        if most is not None:
                            await self.kill()
                            raise Killed
            self.followers = await followers(self.outbox, self.server, self.scopes)

        self.run(gone())

    @precondition(lambda self: self.backups)
    @rule(data=st.data(), scopes=st.none() | SCOPES)
    def is_restored_from_a_backup(self, data: st.DataObject, scopes: tuple[Scope, ...] | None) -> None:
        """While the bridge runs, or is down. A history as long as the exported one proves no restore: so all
        changes that will be undone were exported, and the new history is looked at before it goes on."""
        backup = data.draw(st.sampled_from(self.backups))

        async def restored() -> None:
            await self.look()
            self.server.restore(backup)
            self.backups = [each for each in self.backups if each.version <= backup.version]
            if scopes is not None:
                await self.outbox.close()
                await self.open(scopes)
            await self.look()

        self.run(restored())

    @rule(readable=st.booleans())
    def database_is_damaged(self, readable: bool) -> None:
        async def damaged() -> None:
            await self.outbox.close()
            if readable:
                (self.directory / f"{FILE}.damaged").write_text("a page makes no sense")
            else:
                (self.directory / FILE).write_bytes(b"no database at all" * 1000)
            await self.open(self.scopes)
            self.stream.clear()  # The Gap says that nothing of it counts any more.
            await self.look()

        self.run(damaged())

    # ── At any time ──────────────────────────────────────────────────────────

    @invariant()
    def no_id_is_exported_twice(self) -> None:
        assert self.repeated == []

    @invariant()
    def who_drops_repetitions_knows_what_the_ledger_knows(self) -> None:
        if hasattr(self, "outbox"):
            state: dict[str, str] = {}
            for delta in self.stream:
                if delta.op is Op.DELETED:
                    state.pop(delta.key, None)
                else:
                    state[delta.key] = delta.resource_version
            known = {
                key: each.resource_version
                for follower in self.followers.values()
                for key, each in follower.known.items()
            }
            assert state == known


TestIdentity = IdentityMachine.TestCase
TestIdentity.settings = examples(
    15,
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
