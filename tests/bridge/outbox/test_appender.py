"""The time of a record."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bridge.outbox import appender
from bridge.outbox.appender import utc_now


def test_the_time_of_a_record_is_now_in_utc() -> None:
    before = datetime.now(UTC)
    now = datetime.fromisoformat(utc_now())

    assert now.utcoffset() == timedelta(0)
    assert before - timedelta(microseconds=1) <= now <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_796_293_799_999_999_999, "2026-12-03T10:29:59.999999Z"),
        (1_796_293_800_000_001_000, "2026-12-03T10:30:00.000001Z"),
    ],
)
def test_the_time_of_a_record_always_has_microseconds(
    nanoseconds: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appender, "time_ns", lambda: nanoseconds)

    assert utc_now() == text
