"""What a record costs at each destination, on this machine and beside whatever else runs on it. Printed only, by
`make soak`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contracts.conftest import EVERY
from tests.contracts.destinations import Destination
from tests.contracts.rules import deliver_all
from tests.kit.records import a_delta

COUNT = 5_000
ELSEWHERE = """
import asyncio
from tests.kit.webhook_receiver import Answer, WebhookReceiver

async def main():
    async with WebhookReceiver() as receiver:
        receiver.permission = lambda posted: Answer(200, {"WebHook-Allowed-Origin": "*"})
        print(receiver.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def in_a_process_of_its_own(destination: Destination) -> AsyncIterator[dict[str, Any]]:
    """Options. The endpoint would otherwise share a process, and a thread, with the sink."""
    if destination.kind != "webhook":
        yield {}
        return
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ELSEWHERE, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield {"url": (await process.stdout.readline()).decode().strip()}
    finally:
        process.kill()
        await process.wait()


@pytest.mark.soak
@pytest.mark.parametrize("kind", EVERY, indirect=True)
async def test_five_thousand_records(destination: Destination) -> None:
    body = b'{"metadata":{"name":"web"},"spec":"' + b"0123456789abcdef" * 125 + b'"}'
    records = [a_delta(n, key=f"shop/web-{n % 50}", body=body) for n in range(1, COUNT + 501)]
    patient = destination.patience
    async with in_a_process_of_its_own(destination) as options, destination.opened(**options, **patient) as sink:
        await deliver_all(sink, records[:500], destination.max_batch)
        began, cpu = time.perf_counter(), time.process_time()
        results = await deliver_all(sink, records[500:], destination.max_batch)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu

    assert len(results.stored) == COUNT
    print(f"\n{destination.way}: {COUNT / seconds:,.0f} records/s, {cpu / COUNT * 1e6:,.0f} µs of CPU each", end="")
