"""Selections take effect at a start: a mistake changes no state, a difference has bounded parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.facts import Fact, SelectionChanged, SelectionUnreadable
from bridge.outbox.log import reading
from bridge.pipelines import selecting
from bridge.plan.plan import PlanRefused
from bridge.selection.language import MissingLibrary
from tests.bridge.pipelines.chat import BIG, EVERY, put, started, taken


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
        monkeypatch.setattr(reading, "MOST_BYTES", 10_000)
        assert [len(part) async for part in outbox.selections.states()] == [3, 3, 3, 3]
