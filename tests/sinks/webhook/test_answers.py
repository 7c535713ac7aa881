"""What an answer means."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sinks.base import RetryLater
from sinks.webhook.answers import Failed, Refused, Stored, Verdict, seconds_of, verdict

NOW = datetime(2026, 11, 21, 9, 0, 0, tzinfo=UTC)


def trouble_of(found: Verdict) -> RetryLater:
    assert isinstance(found, Failed)
    return found.trouble


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ([200, 201, 202, 204, 299], Stored),
        ([400, 413, 415, 422, 431], Refused),
        ([408, 425, 500, 502, 504, 507], Failed),
        ([301, 302, 307, 308, 304], Failed),
        ([401, 403, 404, 405, 407, 410, 429, 503, 409, 418, 451], Failed),
    ],
)
def test_a_status_says_whose_move_it_is(statuses: list[int], kind: type) -> None:
    assert {type(verdict(status, None, NOW)) for status in statuses} == {kind}


@pytest.mark.parametrize(
    ("statuses", "whole"),
    [
        ([408, 425, 500, 502, 504, 507], False),
        ([301, 302, 307, 308, 304], True),
        ([401, 403, 404, 405, 407, 410, 429, 503, 409, 418, 451], True),
    ],
)
def test_failures_of_one_record_are_distinct_from_those_of_all(statuses: list[int], whole: bool) -> None:
    assert {trouble_of(verdict(status, None, NOW)).whole for status in statuses} == {whole}


def test_retry_after_is_heard_with_any_trouble() -> None:
    for status in (302, 429, 503, 500, 425):
        assert trouble_of(verdict(status, "7", NOW)).after == 7.0


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
