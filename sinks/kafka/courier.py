"""One librdkafka producer and the one thread that polls it.

``produce`` never blocks and is called in the event loop; delivery reports come in the thread. What both touch has one
writer each: the loop counts what it launched, the thread what landed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from concurrent.futures import Executor
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sinks.kafka.encode import Headers

_FAR = 1 << 62
_ANSWERS = 10.0
"""Seconds that a producer which broke waits for answers to what it had sent."""
_quiet = logging.getLogger("kubedelta.librdkafka.quiet")
_quiet.disabled = True
_outspoken = logging.getLogger("kubedelta.librdkafka")


class Flight:
    """A record between ``launch`` and its delivery report: one message, or two with a tombstone."""

    __slots__ = ("_courier", "_messages", "error")

    def __init__(self, courier: Courier, messages: int) -> None:
        self._courier = courier
        self._messages = messages
        self.error: KafkaError | None = None

    @property
    def landed(self) -> bool:
        return self._messages == 0

    @property
    def stored(self) -> bool:
        return self._messages == 0 and self.error is None

    def report(self, error: KafkaError | None, _message: Message) -> None:
        """Called in the poll thread, once for each message. Must never raise: the binding would not bear it."""
        self.error = self.error or error
        self._messages -= 1
        self._courier.landed += 1


class CountedFlight(Flight):
    """One that knows where it landed."""

    __slots__ = ("partition",)

    def __init__(self, courier: Courier, messages: int) -> None:
        super().__init__(courier, messages)
        self.partition = -1

    def report(self, error: KafkaError | None, message: Message) -> None:
        if error is None and (partition := message.partition()) is not None:
            self.partition = partition
        super().report(error, message)


class Courier:
    """Made in a thread, because reading certificates and waiting for a first token may take a while. Raises
    KafkaException for settings that librdkafka does not take."""

    def __init__(self, settings: dict[str, Any], threads: Executor, loop: asyncio.AbstractEventLoop) -> None:
        self.gapless = bool(settings["enable.gapless.guarantee"])
        self._threads = threads
        self._loop = loop
        self._landing = asyncio.Event()
        self._awaited = _FAR
        """Tell the loop when so many messages have landed."""
        self._ending = threading.Event()
        self.launched = 0
        """Messages; counted by the loop."""
        self.landed = 0
        """Messages; counted by the thread."""
        self._fatal: str | None = None
        self.broken: str | None = None
        """Why this producer is of no more use. Set when everything that it had has landed, one way or the other."""
        self.trouble = ""
        """What librdkafka last had to say about its connections."""
        logger = _outspoken if "debug" in settings else _quiet
        self._producer = Producer(settings | {"error_cb": self._on_error}, logger=logger)
        self._thread = threading.Thread(target=self._run, name="kafka-poll", daemon=True)
        self._thread.start()

    @property
    def failing(self) -> bool:
        """It sends nothing more. It breaks when what it had sent is answered, or seconds later."""
        return self._fatal is not None

    @property
    def aloft(self) -> int:
        """Messages that librdkafka has."""
        return self.launched - self.landed

    def launch(
        self, flight: Flight, topic: str, key: str | None, value: bytes | None, headers: Headers, partition: int = -1
    ) -> bool:
        """False when the queue is full. Raises KafkaException where the producer cannot take this message at all."""
        try:
            self._producer.produce(topic, value, key, partition, headers=headers, on_delivery=flight.report)  # type: ignore[arg-type]
        except BufferError:
            return False
        self.launched += 1
        return True

    async def wait(self, messages: int, patience: float) -> bool:
        """Return True when ``landed`` has come to so many, or when the producer broke; False when none landed for
        ``patience`` seconds."""
        try:
            while self.landed < messages and self.broken is None:
                before = self.landed
                self._landing.clear()
                self._awaited = messages
                if self.landed >= messages or self.broken is not None:
                    break  # It came between the first look and the order to tell.
                try:
                    async with asyncio.timeout(patience):
                        await self._landing.wait()
                except TimeoutError:
                    if self.landed == before:
                        return False
        finally:
            self._awaited = _FAR
        return True

    def topics(self, topic: str | None, timeout: float) -> Any:
        """Metadata of one topic, or of the cluster. Blocks for ``timeout`` seconds at most. Raises KafkaException."""
        return (
            self._producer.list_topics(topic, timeout=timeout) if topic else self._producer.list_topics(timeout=timeout)
        )

    async def end(self, patience: float) -> None:
        """Give what is aloft ``patience`` seconds to land, and drop the rest: every flight has landed afterwards."""
        if self.broken is None and self.aloft:
            await self.wait(self.launched, patience)
        self._ending.set()
        await self._loop.run_in_executor(self._threads, self._thread.join)

    def _run(self) -> None:
        told = 0
        while not self._ending.is_set():
            self._poll(0.1)
            if self._fatal is not None and self.broken is None:
                self._drop_queued()
                self._drop_all()
                self.broken = self._fatal
                self._tell()
            elif self.landed != told and self.landed >= self._awaited:
                told = self.landed
                self._tell()
        self._drop_all()
        # The last reference goes here: librdkafka's end waits for its threads, and the loop must not.
        del self._producer

    def _poll(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._on_error(error.args[0])
        except Exception as error:  # A report that raised comes out here, as a SystemError at times.
            self._fatal = f"the producer's reports failed: {error!r}"

    def _drop_queued(self) -> None:
        """What was not sent yet. What was sent is answered: dropped too, it might be stored and be sent again."""
        until = time.monotonic() + _ANSWERS
        while self.aloft > 0 and time.monotonic() < until and not self._ending.is_set():
            self._producer.purge(in_flight=False)  # Again and again: what is to be sent once more is queued anew.
            self._poll(0.02)

    def _drop_all(self) -> None:
        while self.aloft > 0:
            self._producer.purge()
            self._poll(0.1)

    def _on_error(self, error: KafkaError) -> None:
        self.trouble = error.str()
        if error.fatal():
            self._fatal = error.str()

    def _tell(self) -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits.
            self._loop.call_soon_threadsafe(self._landing.set)
