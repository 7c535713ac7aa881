"""How many wrong tokens a client may send."""

from __future__ import annotations

from bridge.http.access import MOST, WINDOW, WrongTokens


def guessed(wrong: WrongTokens, client: str, times: int, now: float = 0.0) -> float:
    for _ in range(times):
        wrong.add(client, now)
    return wrong.wait_of(client, now)


def test_a_client_waits_until_its_window_ends() -> None:
    wrong = WrongTokens()
    assert guessed(wrong, "a", MOST - 1) == 0
    assert guessed(wrong, "a", 1, now=20.0) == WINDOW - 20
    assert wrong.wait_of("b", 20.0) == 0
    assert wrong.wait_of("a", WINDOW) == 0


def test_a_window_that_has_ended_counts_no_more() -> None:
    wrong = WrongTokens()
    guessed(wrong, "a", MOST)
    assert guessed(wrong, "a", 1, now=WINDOW) == 0
    assert guessed(wrong, "a", MOST - 1, now=WINDOW) == WINDOW


def test_clients_are_bounded() -> None:
    wrong = WrongTokens()
    guessed(wrong, "first", MOST)
    for number in range(1000):
        wrong.add(f"client {number}", 1.0)
    assert wrong.wait_of("first", 1.0) == 0
