"""A producer that sends in transactions (``TransactionalProducer``), the present one of a sink, and the errors of their
calls, sorted by what the sink does about them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from sinks.kafka.config import ClientConfig
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.producer import InFlight, KafkaProducer, Producers
from sinks.kafka.verdicts import FENCING
from sinks.receipt import SinkUnavailable

# ── Errors ───────────────────────────────────────────────────────────────────


def other_owner() -> SinkUnavailable:
    """Another process owns the newest progress."""
    return SinkUnavailable(
        "another process uses the same transactional id, and has taken the topics over: a bridge with the same names of"
        " cluster and sink; end one of them, then resume the sink here",
        fenced=True,
    )


def earlier_term(theirs: int, own: int) -> SinkUnavailable:
    """The leader of a later term owns the newest progress."""
    reason = f"the leader of term {theirs} has taken the topics over, and this replica led in term {own}"
    return SinkUnavailable(reason, fenced=True, in_doubt=theirs)


class TransactionFailed(SinkUnavailable):
    """A call failed, and whether the transaction was stored is unknown, however clear the error is. A new producer ends
    what is open, and the progress tells what was stored. librdkafka takes no new number for its producer when an answer
    is late (KIP-890), so the old producer is of no more use. The message is for the operator."""


class ProducerFenced(TransactionFailed):
    """Another producer took the place of this one, or a transaction timed out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, doubted=True)


def failure_of(error: KafkaError, transactional_id: str, last_error: str) -> TransactionFailed:
    """``last_error``: of the connections, which says why an answer is late."""
    if error.code() in FENCING:
        return ProducerFenced(
            "brokers take no more from this producer (fenced): another one has its transactional id, or a transaction"
            " timed out"
        )
    if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        needs = f"Describe and Write on the prefix {transactional_id.rpartition('/')[0]}/"
        return TransactionFailed(
            f"not authorized to use the transactional id {transactional_id}: allow {needs} of transactional ids"
        )
    if error.code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return TransactionFailed(
            "brokers allow no transaction.timeout.ms so large: see their transaction.max.timeout.ms, and properties"
        )
    if error.code() == KafkaError._TIMED_OUT and last_error:
        return TransactionFailed(last_error)
    return TransactionFailed(error.str())


def error_in(raised: BaseException) -> KafkaError | None:
    """The error of a call; None if it raised a bug. A fatal error goes to the client's ``error_cb``, too, and if that
    happens inside the call, a SystemError has the exception as its cause."""
    found: BaseException | None = raised
    while found is not None and not isinstance(found, KafkaException):
        found = found.__cause__
    if found is None:
        return None
    error: KafkaError = found.args[0]
    return error


# ── The producer ─────────────────────────────────────────────────────────────

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
