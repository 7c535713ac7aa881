"""When an informer counts as stuck, which only a new process can mend."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bridge.app.status import STUCK_AFTER, is_stuck


@dataclass(frozen=True)
class Standing:
    """What is asked of an informer here."""

    silent_for: float
    queued: int

    @property
    def last_answer(self) -> float:
        return asyncio.get_running_loop().time() - self.silent_for


@pytest.mark.parametrize(
    ("silent_for", "queued", "stuck"),
    [(0.0, 0, False), (STUCK_AFTER - 5, 0, False), (STUCK_AFTER + 5, 0, True), (STUCK_AFTER + 5, 3, False)],
)
async def test_no_answer_for_longer_than_any_deadline_is_stuck_unless_something_queued_explains_it(
    silent_for: float, queued: int, stuck: bool
) -> None:
    assert is_stuck(cast(Any, Standing(silent_for, queued))) is stuck


def test_the_limit_is_longer_than_the_longest_watch_and_every_wait() -> None:
    assert 600 < STUCK_AFTER <= 3600
