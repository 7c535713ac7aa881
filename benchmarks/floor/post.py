"""Posts one body again and again, with the client that the webhook sink uses. Prints the CPU seconds of a request.

SERVER (the URL), RECORDS, BODY (a file) and CONCURRENCY come from the environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport


async def post(client: httpx.AsyncClient, url: str, body: bytes, turns: Iterator[int]) -> None:
    for _ in turns:
        response = await client.post(url, content=body, headers={"Content-Type": "application/cloudevents+json"})
        response.raise_for_status()


async def post_all(url: str, body: bytes, records: int, concurrency: int) -> None:
    transport = AiohttpTransport(client=aiohttp.ClientSession())
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        await post(client, url, body, iter(range(concurrency)))  # connections are made before the clock starts
        turns = iter(range(records))
        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(concurrency):
                tasks.create_task(post(client, url, body, turns))
        spent = {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - began}
    print(json.dumps(spent))


if __name__ == "__main__":
    body = Path(os.environ["BODY"]).read_bytes()
    asyncio.run(post_all(os.environ["SERVER"], body, int(os.environ["RECORDS"]), int(os.environ["CONCURRENCY"])))
