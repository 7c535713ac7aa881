"""What the server's answer means."""

from __future__ import annotations

import asyncio

import pytest

from sinks.nats.answers import STREAM_MISSING, Answer, Failed, OutOfChain, Refused, Stored, answer
from sinks.nats.window import LIMIT, Window


def error(number: int, description: str = "what went wrong") -> bytes:
    return b'{"error":{"code":400,"err_code":%d,"description":"%s"},"stream":"K8S","seq":0}' % (
        number,
        description.encode(),
    )


@pytest.mark.parametrize(
    ("payload", "meaning"),
    [
        (b'{"stream":"K8S","seq":12}', Stored(12, duplicate=False)),
        (b'{"stream":"K8S","domain":"hub","seq":12,"duplicate":true}', Stored(12, duplicate=True)),
        (error(10070), OutOfChain()),
        (error(10054), Refused("larger than the stream's max_msg_size", error(10054).decode())),
        (
            error(10077, "maximum bytes exceeded"),
            Failed("the server answers: maximum bytes exceeded (the stream is full)"),
        ),
        (error(10023, "insufficient resources"), Failed("the server answers: insufficient resources")),
        (b"{}", Failed("the server's answer is no acknowledgement of JetStream")),
        (b'{"stream":"\xff","seq":12}', Failed("the server's answer is no acknowledgement of JetStream")),
        (b'{"a":' + b"[" * 100_000, Failed("the server's answer is no acknowledgement of JetStream")),
        (b"+OK", Failed("the server's answer is no acknowledgement of JetStream")),
    ],
)
def test_a_pub_ack_says_whose_move_it_is(payload: bytes, meaning: Answer) -> None:
    assert answer(None, payload) == meaning


def test_nobody_listening_means_that_no_stream_takes_the_subject() -> None:
    assert answer({"Status": "503"}, b"") == Failed(STREAM_MISSING, no_stream=True)


def a_window(*places: int) -> Window:
    window = Window(progress=lambda: None)
    for place in places:
        window.sent(100 + place, place, size=10)
    return window


STORED, DUPLICATE = b'{"stream":"K8S","seq":1}', b'{"stream":"K8S","seq":1,"duplicate":true}'


async def test_a_window_ends_when_everything_is_answered() -> None:
    window = a_window(0, 1)
    for number in (100, 101):
        window.heard(number, None, STORED)

    await window.answered()

    assert (window.stored, window.failure, window.chain_broke) == ({0: 1, 1: 1}, None, False)


async def test_after_the_first_failure_later_answers_do_not_count() -> None:
    window = a_window(0, 1, 2)
    window.heard(100, None, STORED)
    window.heard(101, None, error(10077))
    window.heard(102, None, STORED)

    await window.answered()

    assert window.stored == {0: 1}
    assert window.failure is not None


async def test_answers_to_earlier_exchanges_do_not_count() -> None:
    window = a_window(0)
    window.heard(99, None, error(10077))
    window.heard(100, None, STORED)

    await window.answered()

    assert (window.stored, window.failure) == ({0: 1}, None)


async def test_only_so_much_is_under_way_at_once() -> None:
    window = a_window(0)
    waiting = asyncio.get_running_loop().create_task(window.room_for(LIMIT))
    await asyncio.sleep(0)
    assert not waiting.done()

    window.heard(100, None, STORED)

    await asyncio.wait_for(waiting, 5)


async def test_a_message_larger_than_what_may_be_under_way_goes_alone() -> None:
    await asyncio.wait_for(a_window().room_for(LIMIT + 1), 5)


@pytest.mark.parametrize(("before", "excused"), [(STORED, False), (DUPLICATE, True), (error(10054), True)])
async def test_a_broken_chain_is_excused_by_an_unstored_predecessor(before: bytes, excused: bool) -> None:
    window = a_window(0, 1, 2)
    window.heard(100, None, before)
    window.heard(101, None, error(10070))

    await window.answered()

    assert (window.chain_broke, window.excused) == (True, excused)
