"""Receives a watch, splits it into lines, and hands each to Kafka, or to nobody where no BROKERS are given.

It promises nothing: no keys, no headers, no state, no second try. SERVER, RECORDS, TALLY (a file where it writes how
many lines it has seen), and BROKERS with TOPIC, or neither, come from the environment.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path

import aiohttp
from confluent_kafka import Producer

PATH = "/api/v1/pods?watch=true"
"""Without a version the server begins with what there is."""
CHUNK = 128 * 1024

Send = Callable[[list[bytes]], object]


def to_kafka(brokers: str, topic: str) -> tuple[Send, Callable[[], object]]:
    producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "compression.type": "lz4"})

    def send(lines: list[bytes]) -> None:
        for line in lines:
            while True:
                try:
                    producer.produce(topic, line)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)

    return send, producer.flush


def to_nobody() -> tuple[Send, Callable[[], object]]:
    return len, int


async def receive(server: str, records: int, tally: mmap.mmap, send: Send) -> None:
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(read_bufsize=CHUNK, timeout=timeout) as session,
        session.get(server + PATH, headers={"Accept-Encoding": "identity"}) as response,
    ):
        seen, rest = 0, b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            send(lines)
            seen += len(lines)
            struct.pack_into("<Q", tally, 0, seen)
            if seen >= records:
                return


def main() -> None:
    with Path(os.environ["TALLY"]).open("r+b") as file, mmap.mmap(file.fileno(), 8) as tally:
        brokers = os.environ.get("BROKERS")
        send, finish = to_kafka(brokers, os.environ["TOPIC"]) if brokers else to_nobody()
        asyncio.run(receive(os.environ["SERVER"], int(os.environ["RECORDS"]), tally, send))
        finish()


if __name__ == "__main__":
    main()
