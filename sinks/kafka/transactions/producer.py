"""A producer that sends in transactions, and the present one of a sink."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from sinks.errors import SinkUnavailable
from sinks.kafka.client.config import ClientConfig
from sinks.kafka.client.producer import InFlight, KafkaProducer
from sinks.kafka.client.producers import Producers
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.transactions.failures import TransactionFailed, error_in, failure_of

_ABORT_LOOK = 0.005
"""Seconds."""


class TransactionalProducer(KafkaProducer):
    """Calls raise TransactionFailed. Each waits for ``timeout`` seconds at most, in a thread."""

    def __init__(
        self,
        clients: ClientConfig,
        threads: Executor,
        loop: asyncio.AbstractEventLoop,
        transactional_id: str,
        batch_bytes: int,
        timeout: float,
    ) -> None:
        # Messages are sent in their order, and none behind a failed one: what follows that is aborted.
        self._id = transactional_id
        self._batch_bytes = batch_bytes
        self._timeout = timeout
        self._reading = threading.Lock()
        """Held by the thread that gets delivery reports: an abort gets them in its own thread, and each is counted."""
        self._aborting = False
        super().__init__(clients, threads, loop, gapless=True)

    def _properties(self, clients: ClientConfig) -> dict[str, Any]:
        return clients.transactional(self._id, self._batch_bytes)

    async def init(self) -> None:
        """Ends every transaction of earlier producers with this transactional id, and takes their place."""
        await self._call(lambda producer: producer.init_transactions(self._timeout))

    async def begin(self) -> None:
        await self._call(lambda producer: producer.begin_transaction())

    async def commit(self) -> None:
        """After every message has its delivery report."""
        await self._call(lambda producer: producer.commit_transaction(self._timeout))

    async def abort(self, timeout: float | None = None) -> None:
        """Drops the messages that were not sent. Each has its delivery report then."""
        await self._call(lambda producer: self._abort(producer, self._timeout if timeout is None else timeout))

    def _abort(self, producer: Any, timeout: float) -> None:
        self._aborting = True
        try:
            with self._reading:
                producer.abort_transaction(timeout)
        finally:
            self._aborting = False

    def _poll(self, seconds: float) -> None:
        while self._aborting and not self._closing.is_set():
            time.sleep(_ABORT_LOOK)
        with self._reading:
            super()._poll(seconds)

    async def store(self, message: KafkaMessage, idle_timeout: float) -> KafkaError | None:
        """Sends a message alone, and returns the error of its delivery report."""
        record = InFlight(self, 1)
        try:
            if not self.produce(record, message, message.values[0]):
                raise TransactionFailed("the producer's queue is full")
        except KafkaException as refused:
            found: KafkaError = refused.args[0]
            return found
        if not await self.wait(self.produced, idle_timeout) or record.unreported:
            raise TransactionFailed(
                self.broken or f"no acknowledgement within {idle_timeout:g} s: {self.last_error or 'no answer'}"
            )
        return record.error

    async def _call(self, call: Callable[[Any], None]) -> None:
        try:
            await self._loop.run_in_executor(self._threads, call, self._producer)
        except (KafkaException, SystemError) as raised:
            error = error_in(raised)
            if error is None:
                raise
            raise failure_of(error, self._id, self.last_error) from raised


class TransactionalProducers(Producers):
    """``open`` takes the place of earlier producers. There is no other producer until the next ``open``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor, own_id: str = "") -> None:
        super().__init__(options, config, threads)
        self.transactional_id = own_id
        """Known when it is opened."""
        self._batch_bytes = 1_000_000

    def halve_batches(self) -> None:
        """From the next producer on: a topic refuses batches of whose records it takes each."""
        self._batch_bytes = max(1, self._batch_bytes // 2)

    @property
    def transactional(self) -> TransactionalProducer:
        """Raises SinkUnavailable before ``open``, and when the producer broke."""
        producer = self.present
        if not isinstance(producer, TransactionalProducer):
            raise SinkUnavailable("the sink has no producer")
        if producer.fatal is not None:
            raise SinkUnavailable(producer.fatal)
        return producer

    async def current(self, *, gapless: bool) -> KafkaProducer:  # All are alike.
        return self.transactional

    def _make(self, loop: asyncio.AbstractEventLoop, gapless: bool) -> KafkaProducer:
        name, timeout = self.transactional_id, self._options.connect_timeout
        return TransactionalProducer(self._config, self._threads, loop, name, self._batch_bytes, timeout)

    async def _ping(self, producer: KafkaProducer) -> str:
        found = await super()._ping(producer)
        if isinstance(producer, TransactionalProducer):
            await producer.init()
        return found
