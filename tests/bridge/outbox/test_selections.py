"""The bits of sinks with selections, beyond the life of a sink or of a database."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.model.change import Change, ChangeBatch, Evidence, Op
from bridge.model.object import ApiObject
from bridge.model.policies import StartPolicy
from bridge.model.record import MOST_SELECTIONS
from bridge.model.resource import Scope
from bridge.outbox import Outbox, Retention, StateError
from bridge.outbox.consumers.selections import EVERYTHING
from tests.bridge.outbox.opened import alter, opened, rows_of
from tests.kit.records import PODS

NOW = StartPolicy.NOW


async def add(outbox: Outbox, name: str) -> None:
    await outbox.ledger.adopt(PODS, [Scope()])
    thing = ApiObject(f"shop/{name}", f"uid-{name}", "1", b"{}")
    await outbox.append(ChangeBatch(PODS, Scope(), [Change(Op.ADDED, Evidence.LISTED, thing)], "1"))


async def test_the_bit_of_a_forgotten_sink_is_clean_for_its_heir(tmp_path: Path) -> None:
    async with opened(tmp_path, {"old": NOW}) as outbox:
        await add(outbox, "a")
    async with opened(tmp_path, {"old": NOW}, selecting=["old"]) as outbox:
        mask = outbox.selections.stored["old"].mask
        assert rows_of(tmp_path, "SELECT members FROM ledger") == [(mask,)], "it had everything"
    async with opened(tmp_path, {}, retention=Retention(forget_after=0)) as outbox:
        await outbox.sinks.count_absence(1, 0)
    async with opened(tmp_path, {"new": NOW}, selecting=["new"]) as outbox:
        assert outbox.selections.stored["new"].mask == mask
        assert rows_of(tmp_path, "SELECT members FROM ledger") == [(0,)]


async def test_a_number_of_a_selection_is_never_used_twice(tmp_path: Path) -> None:
    async with opened(tmp_path, {"a": NOW, "b": NOW}, selecting=["a", "b"]) as outbox:
        for sink, changed in (("a", True), ("b", True), ("a", False), ("a", True)):
            await outbox.selections.define(sink, EVERYTHING, "{}", changed=changed)
        assert {sink: each.number for sink, each in outbox.selections.stored.items()} == {"a": 3, "b": 2}


async def test_more_selections_than_bits_are_refused(tmp_path: Path) -> None:
    names = [f"sink-{number}" for number in range(MOST_SELECTIONS + 1)]
    async with opened(tmp_path, dict.fromkeys(names[:-1], NOW), selecting=names[:-1]):
        pass
    with pytest.raises(StateError, match=rf"sinks.{names[-1]}.select: {MOST_SELECTIONS} sinks"):
        async with opened(tmp_path, dict.fromkeys(names, NOW), selecting=names):
            pass


async def test_after_damage_a_sink_keeps_a_selection(tmp_path: Path) -> None:
    async with opened(tmp_path, {"chat": NOW}, selecting=["chat"]) as outbox:
        await add(outbox, "a")
    alter(tmp_path, "DROP TABLE selections")
    async with opened(tmp_path, {"chat": NOW}, selecting=["chat"]) as outbox:
        assert outbox.selections.stored["chat"].since == outbox.last == outbox.first
        assert outbox.sinks["chat"].settled == outbox.last - 1, "the Gap comes first"
