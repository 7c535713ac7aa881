"""Selections take effect at a start: a mistake changes no state, a difference has bounded parts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from bridge.delivery import selecting
from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.outbox import appender, store
from bridge.outbox.appender import MOST_AT_ONCE
from bridge.plan.plan import PlanRefused
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import SelectionChanged, SelectionUnreadable
from bridge.views.language import MissingLibrary
from bridge.views.language.cel import Bound, Expression
from bridge.views.language.cost import budget
from bridge.views.selection import SelectorText
from tests.bridge.delivery.chat import BIG, EVERY, SCOPE, put, started, taken
from tests.bridge.outbox.opened import everything
from tests.kit.counted_work import CountedWork
from tests.kit.records import DEPLOYMENTS, PODS


def without_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingLibrary("expressions need the extra kubedelta[cel]")

    monkeypatch.setattr(selecting, "Cel", missing)


async def test_a_refused_selection_leaves_the_state_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, EVERY) as (outbox, _):
        before = outbox.selections.stored["chat"]
    with monkeypatch.context() as patched:
        without_library(patched)
        with pytest.raises(PlanRefused, match=r"kubedelta\[cel\]"):
            async with started(tmp_path, BIG):
                pass
    async with started(tmp_path, EVERY) as (outbox, _):
        assert outbox.selections.stored["chat"] == before


async def test_a_removed_sink_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, BIG) as (outbox, _):
        await put(outbox, 1, 9)
    facts: list[Fact] = []
    with monkeypatch.context() as patched:
        without_library(patched)
        for number in (2, 3):
            async with started(tmp_path, None, facts) as (outbox, _):
                await put(outbox, number)
    assert [type(each) for each in facts].count(SelectionUnreadable) == 1, "the entries are simpler from then on"

    async with started(tmp_path, BIG, facts) as (_, feed):
        changed = next(each for each in reversed(facts) if isinstance(each, SelectionChanged))
        assert (changed.added, changed.deleted) == (0, 2), "objects that its expression does not choose"
        assert await taken(feed) == ["added 9", "added 2", "added 3", "deleted 2", "deleted 3"]


async def test_a_difference_is_read_in_parts_of_bounded_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with started(tmp_path, EVERY) as (outbox, _):
        await put(outbox, *range(12), padding=4_000)
        monkeypatch.setattr(store, "MOST_BYTES", 10_000)
        assert [len(part) async for part in outbox.selections.states()] == [3, 3, 3, 3]


COSTLY = (SelectorText(resource="pods", where="object.spec.l.exists(x, object.spec.l.exists(y, y == 'no'))"),)
MANY = 100


def hostile(number: int) -> Change:
    """An object on which the expression takes nearly as long as it may, each with a part of its own."""
    body = msgspec.json.encode({"spec": {"l": ["w"] * 78 + [str(number)]}})
    return Change(Op.ADDED, Evidence.WATCHED, ApiObject(f"shop/{number}", f"uid-{number}", f"{number + 1}", body))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> CountedWork:
    """Each evaluation takes all of its budget."""
    counted, evaluate = CountedWork(), Expression.evaluate

    def counts(self: Expression, bound: Bound) -> bool:
        counted.step(budget(bound.size) / 1e9)
        return evaluate(self, bound)

    monkeypatch.setattr(Expression, "evaluate", counts)
    monkeypatch.setattr(appender, "Turns", lambda: counted.turns)
    return counted


async def test_many_hostile_objects_leave_the_event_loop_to_others(tmp_path: Path, work: CountedWork) -> None:
    changes = [hostile(number) for number in range(MANY)]
    async with started(tmp_path, COSTLY) as (outbox, feed):
        await work.beside(outbox.append(ChangeBatch(PODS, SCOPE, changes, "101")))
        assert work.now > MANY * 4e-3, "they are evaluated"
        assert work.longest < 2 * (MOST_AT_ONCE + 5e-3)
        assert await taken(feed) == []


async def test_a_changed_selection_judges_hostile_objects_in_turns(tmp_path: Path, work: CountedWork) -> None:
    changes = [hostile(number) for number in range(MANY)]
    async with started(tmp_path, EVERY) as (outbox, _):
        await outbox.append(ChangeBatch(PODS, SCOPE, changes, "101"))

    async def start() -> list[str]:
        async with started(tmp_path, COSTLY) as (_, feed):
            return await taken(feed)

    assert len(await work.beside(start())) == 2 * MANY, "added, and now deleted"
    assert work.now > MANY * 4e-3, "they are evaluated"
    assert work.longest < 2 * (MOST_AT_ONCE + 5e-3)


async def test_others_go_past_hostile_objects_with_numbers_in_order(tmp_path: Path, work: CountedWork) -> None:
    seen, again = hostile(1), hostile(1)
    again = replace(again, op=Op.UPDATED, before=ObjectVersion("uid-1", "2", seen.object.body))
    long = [seen, again, *(hostile(number) for number in range(2, MANY))]
    short = Change(Op.ADDED, Evidence.WATCHED, ApiObject("shop/tea", "uid-tea", "7", b'{"data":{}}'))
    async with started(tmp_path, COSTLY) as (outbox, _), asyncio.TaskGroup() as tasks:
        await outbox.ledger.adopt(DEPLOYMENTS, [SCOPE])
        tasks.create_task(outbox.append(ChangeBatch(PODS, SCOPE, long, "101")))
        tasks.create_task(outbox.append(ChangeBatch(DEPLOYMENTS, SCOPE, [short], "7")))
    async with started(tmp_path, COSTLY) as (outbox, _):
        log = [each for each in await everything(outbox) if isinstance(each, Delta)]
        assert [each.key for each in log] == ["shop/tea", *(each.object.key for each in long)]
        assert [each.sequence for each in log] == [*range(1, MANY + 2)]
        known = (await outbox.ledger.adopt(PODS, [SCOPE]))[0][SCOPE]
        assert known is not None
        assert known.objects["shop/1"].state == 3, "the record of its second change"
