"""The time between two looks."""

from __future__ import annotations

from bridge.model.primitives.backoff import PollInterval


def test_looks_become_rare_while_nothing_changes() -> None:
    interval = PollInterval(0.25, 1.0)
    seconds = [interval.seconds]
    for changed in (False, False, False, True, False):
        interval.looked(changed=changed)
        seconds.append(interval.seconds)

    assert seconds == [0.25, 0.5, 1.0, 1.0, 0.25, 0.5]
