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


@pytest.mark.parametrize(
    ("statuses", "kind"),
    [
        ([200, 201, 202, 204, 299], PostAccepted),
        ([400, 413, 415, 422, 431], PostRejected),
        ([408, 425, 500, 502, 504, 507], PostFailed),
        ([301, 302, 307, 308, 304], PostFailed),
        ([401, 403, 404, 405, 407, 410, 429, 503, 409, 418, 451], PostFailed),
    ],
)
def test_a_status_says_whose_move_it_is(statuses: list[int], kind: type) -> None:
    assert {type(result_of(status, None, NOW)) for status in statuses} == {kind}


def test_only_a_status_about_a_size_is_certain() -> None:
    found = {status: result_of(status, None, NOW) for status in range(100, 600)}
    certain = {status: each.certain for status, each in found.items() if isinstance(each, PostRejected)}
    assert certain == {400: False, 413: True, 414: True, 415: False, 422: False, 431: True}


@pytest.mark.parametrize(
    ("statuses", "unavailable"),
    [
        ([408, 425, 500, 502, 504, 507], False),
        ([301, 302, 307, 308, 304], True),
        ([401, 403, 404, 405, 407, 410, 429, 503, 409, 418, 451, 495, 496, 497], True),
    ],
)
def test_a_failure_of_one_request_leaves_the_endpoint_available(statuses: list[int], unavailable: bool) -> None:
    assert {failure_of(result_of(status, None, NOW)).unavailable for status in statuses} == {unavailable}


def test_only_410_means_that_no_more_records_are_wanted() -> None:
    assert {status for status in range(300, 600) if _is_gone(result_of(status, None, NOW))} == {410}


def _is_gone(found: PostResult) -> bool:
    return isinstance(found, PostFailed) and found.failure.gone


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
