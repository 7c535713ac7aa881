"""A token is renewed before its end, by a single request, whoever waits. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from sinks.base import SinkUnavailable
from sinks.webhook.authorization import AccessToken, TokenCache
from tests.kit.virtual_time import run_in_virtual_time


class Issuer:
    """Gives tokens of ``lifetime`` seconds, each after ``seconds``."""

    def __init__(self, lifetime: float = 100.0, seconds: float = 1.0) -> None:
        self.lifetime, self.seconds = lifetime, seconds
        self.fails = False
        self.asked: list[float] = []

    async def __call__(self) -> AccessToken:
        self.asked.append(asyncio.get_running_loop().time() - 1000)
        number = len(self.asked)
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise SinkUnavailable(f"failure {number}")
        return AccessToken(f"token {number}", self.lifetime)


Story: TypeAlias = Callable[[TokenCache, Issuer], Awaitable[None]]


def in_virtual_time(story: Story) -> Callable[[], None]:
    """A test that tells the story."""

    async def tell() -> None:
        issuer = Issuer()
        await story(TokenCache(issuer), issuer)

    return lambda: run_in_virtual_time(tell())


async def all_of(*calls: Awaitable[str]) -> list[str]:
    return [
        each if isinstance(each, str) else str(each) for each in await asyncio.gather(*calls, return_exceptions=True)
    ]


@in_virtual_time
async def test_a_token_is_renewed_before_its_end(cache: TokenCache, issuer: Issuer) -> None:
    assert await cache.get() == "token 1"
    await asyncio.sleep(88.9)  # 89.9 s after the request for it, of 100.
    assert await cache.get() == "token 1"
    await asyncio.sleep(0.2)
    assert await cache.get() == "token 2"
    assert issuer.asked == [0.0, pytest.approx(90.1)]


@in_virtual_time
async def test_a_long_lived_token_is_renewed_a_minute_early(cache: TokenCache, issuer: Issuer) -> None:
    issuer.lifetime = 86_400
    await cache.get()
    await asyncio.sleep(86_400 - 61 - 1)
    assert await cache.get() == "token 1"
    await asyncio.sleep(2)
    assert await cache.get() == "token 2"


@in_virtual_time
async def test_a_token_without_an_end_is_kept(cache: TokenCache, issuer: Issuer) -> None:
    issuer.lifetime = float("inf")
    await cache.get()
    await asyncio.sleep(10**6)
    assert await cache.get() == "token 1"
    cache.reject("token 1")
    assert await cache.get() == "token 2"
    assert len(issuer.asked) == 2


@in_virtual_time
async def test_callers_share_a_request_and_its_result(cache: TokenCache, issuer: Issuer) -> None:
    assert await all_of(*(cache.get() for _ in range(50))) == ["token 1"] * 50
    issuer.fails = True
    cache.reject("token 1")
    assert await all_of(*(cache.get() for _ in range(50))) == ["failure 2"] * 50
    assert len(issuer.asked) == 2
    issuer.fails = False
    assert await cache.get() == "token 3", "a new attempt asks anew"


@in_virtual_time
async def test_nobody_waits_for_a_renewal_while_a_token_is_valid(cache: TokenCache, issuer: Issuer) -> None:
    await cache.get()
    await asyncio.sleep(95 - 1)
    now = asyncio.get_running_loop().time
    async with asyncio.TaskGroup() as group:
        renewing = group.create_task(cache.get())
        await asyncio.sleep(0.1)
        began = now()
        assert await cache.get() == "token 1"
        assert now() == began
    assert renewing.result() == "token 2"


@in_virtual_time
async def test_a_failed_renewal_leaves_the_valid_token_in_use(cache: TokenCache, issuer: Issuer) -> None:
    await cache.get()
    issuer.fails = True
    await asyncio.sleep(90)
    assert [await cache.get() for _ in range(20)] == ["token 1"] * 20
    assert len(issuer.asked) == 2, "the next attempt is ten seconds later"
    await asyncio.sleep(10)
    with pytest.raises(SinkUnavailable, match="failure 3"):
        await cache.get()


@in_virtual_time
async def test_an_old_token_that_was_refused_does_not_cost_the_new_one(cache: TokenCache, issuer: Issuer) -> None:
    await cache.get()
    cache.reject("token 1")
    await cache.get()
    cache.reject("token 1")
    assert await cache.get() == "token 2"
    assert len(issuer.asked) == 2


@in_virtual_time
async def test_a_cancelled_request_is_made_again_by_the_next(cache: TokenCache, issuer: Issuer) -> None:
    async with asyncio.TaskGroup() as group:
        first = group.create_task(cache.get())
        second = group.create_task(cache.get())
        await asyncio.sleep(0.5)
        first.cancel()
    assert second.result() == "token 2"
