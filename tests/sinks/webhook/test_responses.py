"""What an answer means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sinks.base import RetryLater
from sinks.webhook.responses import PostAccepted, PostFailed, PostRejected, PostResult, result_of, seconds_of

NOW = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)


def failure_of(found: PostResult) -> RetryLater:
    assert isinstance(found, PostFailed)
    return found.failure


def meaning(status: int) -> str:
    match result_of(status, None, NOW):
        case PostAccepted():
            return "stored"
        case PostRejected(certain=certain):
            return "too large" if certain else "perhaps at fault"
        case PostFailed(failure):
            return "gone" if failure.gone else "unavailable" if failure.unavailable else "failed"


def test_a_status_says_who_is_at_fault() -> None:
    wanted = dict.fromkeys(range(100, 600), "unavailable")
    wanted |= dict.fromkeys(range(200, 300), "stored")
    wanted |= dict.fromkeys((413, 414, 431), "too large") | dict.fromkeys((400, 415, 422), "perhaps at fault")
    wanted |= dict.fromkeys((408, 425, *range(500, 503), *range(504, 600)), "failed") | {410: "gone"}

    assert {status: meaning(status) for status in wanted} == wanted


def test_any_failure_may_have_a_retry_after() -> None:
    for status in (302, 429, 503, 500, 425):
        assert failure_of(result_of(status, "7", NOW)).after == 7.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 0.0),
        (" 120 ", 120.0),
        ("99999999999999999999", 3600.0),
        ("Sat, 21 Nov 2026 09:01:30 GMT", 90.0),
        ("Saturday, 21-Nov-26 09:01:30 GMT", 90.0),
        ("Sat, 21 Nov 2026 08:00:00 GMT", 0.0),
        ("Sat, 21 Nov 2099 08:00:00 GMT", 3600.0),
        ("soon", None),
        ("Sat, 21 Nov 99999999999999999999 08:00:00 GMT", None),
        ("Sat, 21 Nov 2026 08:00:00 +99999999999999999999", None),
        ("-1", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, NOW) == seconds
