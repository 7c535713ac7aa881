"""Times of arrival: each object has the time of the load server's write, and destinations have their own."""

from __future__ import annotations

import ctypes
import os
import re
import select
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import nats
from confluent_kafka import Consumer, TopicPartition

_WRITTEN = re.compile(rb'"load\.kubedelta\.test/written":"(\d{19})"')

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IN_MODIFY = 2
_libc = ctypes.CDLL(None, use_errno=True)


def latency_ms(value: bytes, arrived_ns: int, since_ns: int) -> float | None:
    """Milliseconds between write and arrival; None for an object that was written before ``since_ns``. All times are
    nanoseconds since 1970."""
    written = _WRITTEN.search(value)
    return (arrived_ns - int(written[1])) / 1e6 if written is not None and int(written[1]) >= since_ns else None


def kafka_records(bootstrap: str, partitions: Sequence[TopicPartition], records: int) -> Iterator[tuple[int, bytes]]:
    """The time of each append in nanoseconds since 1970, and the value. Brokers keep whole milliseconds: the time is
    the middle of that millisecond, so that means and medians are neither too long nor too short. Raises
    TimeoutError."""
    settings = {"group.id": "latencies", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    try:
        consumer.assign(list(partitions))
        left = records
        while left:
            messages = consumer.consume(min(1000, left), timeout=30)
            if not messages:
                raise TimeoutError(f"{left} of the stored records could not be read back")
            left -= len(messages)
            for message in messages:
                yield message.timestamp()[1] * 1_000_000 + 500_000, message.value() or b""
    finally:
        consumer.close()


async def nats_records(url: str, stream: str, records: int) -> AsyncIterator[tuple[int, bytes]]:
    """The time at which each message was stored, in nanoseconds since 1970, and its data. Raises TimeoutError."""
    async with await nats.connect(url) as connection:
        messages = await connection.jetstream().subscribe(f"{stream}.>", stream=stream, ordered_consumer=True)
        for _ in range(records):
            message = await messages.next_msg(timeout=30)
            stored = (message.metadata.timestamp - _EPOCH) / timedelta(microseconds=1)
            yield int(stored) * 1_000, message.data


class Follower:
    """Reads a file as it grows, on a thread that inotify wakes, from its end at the start of the follower."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._file.seek(0, os.SEEK_END)
        self._notices = _libc.inotify_init1(os.O_CLOEXEC)
        if self._notices < 0 or _libc.inotify_add_watch(self._notices, os.fsencode(path), _IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._over = os.eventfd(0, os.EFD_CLOEXEC)
        self.lines: list[tuple[int, bytes]] = []
        """When each line was read, in nanoseconds since 1970, and the line."""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Reads what the file has now, and ends the thread. A second call has no effect."""
        if self._file.closed:
            return
        os.eventfd_write(self._over, 1)
        self._thread.join()
        for descriptor in (self._notices, self._over):
            os.close(descriptor)
        self._file.close()

    def _run(self) -> None:
        rest = b""
        poll = select.poll()
        for descriptor in (self._notices, self._over):
            poll.register(descriptor, select.POLLIN)
        over = False
        while not over:
            ready = [descriptor for descriptor, _ in poll.poll()]
            over = self._over in ready
            if self._notices in ready:
                os.read(self._notices, 4096)
            *lines, rest = (rest + self._file.read()).split(b"\n")
            now = time.time_ns()
            self.lines += [(now, line) for line in lines]
