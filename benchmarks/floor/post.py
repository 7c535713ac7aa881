"""Posts one body again and again. Prints the CPU seconds of a request.

SERVER (the URL), RECORDS, BODY (a file), CONCURRENCY and CLIENT come from the environment: ``httpx`` is its client over
aiohttp's transport; ``transport`` asks that transport directly, as the webhook sink does.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

HEADERS = {"Content-Type": "application/cloudevents+json"}


def with_client(client: httpx.AsyncClient, url: str, body: bytes) -> Callable[[], Awaitable[object]]:
    async def post() -> None:
        (await client.post(url, content=body, headers=HEADERS)).raise_for_status()

    return post


def with_transport(transport: AiohttpTransport, url: str, body: bytes) -> Callable[[], Awaitable[object]]:
    parsed = httpx.URL(url)
    headers = {"Host": parsed.netloc.decode(), "Content-Length": str(len(body)), **HEADERS}

    async def post() -> None:
        answer = await transport.handle_async_request(httpx.Request("POST", parsed, headers=headers, content=body))
        await answer.aread()
        if not answer.is_success:
            raise RuntimeError(f"status {answer.status_code}")

    return post


async def post_all(url: str, body: bytes, records: int, concurrency: int, which: str) -> None:
    transport = AiohttpTransport(client=aiohttp.ClientSession())
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        post = with_client(client, url, body) if which == "httpx" else with_transport(transport, url, body)
        await in_turns(post, concurrency, concurrency)  # connections are made before the clock starts
        began, cpu = time.perf_counter(), time.process_time()
        await in_turns(post, records, concurrency)
        spent = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - began}
    print(json.dumps(spent))


async def in_turns(post: Callable[[], Awaitable[object]], records: int, concurrency: int) -> None:
    async def again(turns: Iterator[int]) -> None:
        for _ in turns:
            await post()

    turns = iter(range(records))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(concurrency):
            tasks.create_task(again(turns))


if __name__ == "__main__":
    asyncio.run(
        post_all(
            os.environ["SERVER"],
            Path(os.environ["BODY"]).read_bytes(),
            int(os.environ["RECORDS"]),
            int(os.environ["CONCURRENCY"]),
            os.environ["CLIENT"],
        )
    )
