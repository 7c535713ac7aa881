"""Runs librdkafka's producer: ``KafkaProducer`` is one producer with the thread that polls it, ``Producers`` has the
present one of a sink, and replaces it when it fails. ``TransactionalProducer`` sends in transactions, and sorts the
errors of their calls by what the sink does about them; ``TransactionalProducers`` has the present one of those.

``produce`` never blocks and is called in the event loop; delivery reports arrive in the thread. Each counter that both
use has one writer: the loop counts produced messages, the thread counts reports.

Brokers refuse a batch because of a single record in it, and librdkafka is then unusable. To drop the records in flight
to other partitions and send them again delivered them twice, so a broken producer waits for its answers first. To
compare sizes with each topic's ``max.message.bytes`` before needs another right, and compressed sizes are not known
then.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sinks.base import always
from sinks.kafka.config import ClientConfig, unreachable
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions
from sinks.kafka.verdicts import FENCING
from sinks.receipt import NotLeading, SinkUnavailable

_NEVER = 1 << 62
_ANSWER_TIMEOUT = 10.0  # seconds
_CREDENTIALS = frozenset({KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_disabled_logger = logging.getLogger("kubedelta.librdkafka.quiet")
_disabled_logger.disabled = True
_debug_logger = logging.getLogger("kubedelta.librdkafka")


class InFlight(msgspec.Struct, gc=False, eq=False):
    """A record between ``produce`` and its delivery report: one message, or two with a tombstone."""

    producer: KafkaProducer
    unreported: int
    """Messages without a delivery report."""
    error: KafkaError | None = None

    @property
    def reported(self) -> bool:
        """Every message has its delivery report, with or without an error."""
        return self.unreported == 0

    @property
    def acknowledged(self) -> bool:
        """All in-sync replicas have every message."""
        return self.unreported == 0 and self.error is None

    def report(self, error: KafkaError | None, _message: Message) -> None:
        """The delivery report of one message. Runs in the poll thread and must never raise: the binding would crash."""
        # The first error counts: the success of a tombstone must not hide the failure of its record.
        self.error = self.error or error
        self.unreported -= 1
        self.producer.reported += 1


class KafkaProducer:
    """Create it in a thread: reading certificates and waiting for a first token may block for some time. The
    constructor raises KafkaException for settings that librdkafka refuses, and WrongOption."""

    def __init__(
        self,
        clients: ClientConfig,
        threads: Executor,
        loop: asyncio.AbstractEventLoop,
        *,
        gapless: bool,
        may_send: Callable[[], bool] = always,
    ) -> None:
        """``gapless``: see ``ClientConfig.producer``. ``may_send``: see SinkContext; asked before messages are taken,
        since librdkafka sends by itself what it has taken. Raises WrongOption."""
        self._files = clients.files()
        self.gapless = gapless
        config = self._properties(clients)
        self._tokens = clients.tokens
        self._refused = clients.refused
        self._threads = threads
        self._loop = loop
        self._may_send = None if may_send is always else may_send
        self._report_event = asyncio.Event()
        self._idle_at: float | None = None
        """When a wait without reports ends; None while no task waits."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._wake_at = _NEVER
        """The thread wakes the loop when ``reported`` reaches this number."""
        self._closing = threading.Event()
        self._ending = False
        self.produced = 0  # messages
        self.reported = 0  # of them, with a report
        self.fatal: str | None = None
        """A fatal error: no more messages are sent. ``broken`` follows within seconds."""
        self.broken: str | None = None
        """The fatal error. Set after every produced message has its delivery report."""
        self.last_error = ""
        """The last error of librdkafka's connections."""
        logger = _debug_logger if "debug" in config else _disabled_logger
        self._producer = Producer(config | {"error_cb": self._on_error}, logger=logger)
        # A daemon: a process that exits must not wait for a silent broker.
        self._thread = threading.Thread(target=self._poll_until_closed, name="kafka-poll", daemon=True)
        self._thread.start()

    def _properties(self, clients: ClientConfig) -> dict[str, Any]:
        return clients.producer(gapless=self.gapless)

    @property
    def in_flight(self) -> int:
        """Messages without a delivery report."""
        return self.produced - self.reported

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
        """Queues one message. Returns False when the queue is full. Raises KafkaException when librdkafka refuses the
        message itself, and NotLeading."""
        if self._may_send is not None and not self._may_send():
            raise NotLeading
        try:
            self._producer.produce(
                message.topic,
                value,
                message.key,
                message.partition,
                headers=message.headers,  # type: ignore[arg-type]  # dict is invariant.
                on_delivery=record.report,
            )
        except BufferError:
            return False
        self.produced += 1
        return True

    def send(self, messages: Iterable[KafkaMessage]) -> list[InFlight]:
        """Queues the first messages that can be queued at once, and returns their records: fewer than ``messages`` if
        the queue is full, at a tombstone, or if librdkafka refuses a message, and none if this replica may not send.
        Hot."""
        in_flight: list[InFlight] = []
        if self._may_send is not None and not self._may_send():
            return in_flight
        produce = self._producer.produce
        for message in messages:
            if len(message.values) > 1:
                break
            record = InFlight(self, 1)
            try:
                produce(
                    message.topic,
                    message.values[0],
                    message.key,
                    message.partition,
                    headers=message.headers,  # type: ignore[arg-type]  # dict is invariant.
                    on_delivery=record.report,
                )
            except (BufferError, KafkaException):
                break
            in_flight.append(record)
        self.produced += len(in_flight)
        return in_flight

    async def wait(self, reports: int, idle_timeout: float) -> bool:
        """Returns True when ``reported`` reaches this number or the producer broke; False when no report came for
        ``idle_timeout`` seconds."""
        try:
            while self.reported < reports and self.broken is None:
                before = self.reported
                self._report_event.clear()
                # The thread wakes the loop once for a whole batch, not for every report.
                self._wake_at = reports
                if self.reported >= reports or self.broken is not None:
                    break  # The report came before the thread could see _wake_at: the event stays unset.
                self._idle_at = idle_at = self._loop.time() + idle_timeout
                if self._idle_timer is None or self._idle_timer.when() > idle_at:
                    self._look_at(idle_at)
                await self._report_event.wait()
                # Reports that came in this time show progress, even if fewer than the batch has.
                if self.reported == before and self._loop.time() >= idle_at and self.broken is None:
                    return False
        finally:
            self._wake_at, self._idle_at = _NEVER, None
        return True

    def _look_at(self, when: float) -> None:
        """One timer for many waits: nearly every wait ends long before its timeout."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = self._loop.call_at(when, self._end_idle_wait)

    def _end_idle_wait(self) -> None:
        self._idle_timer, idle_at = None, self._idle_at
        if idle_at is None:
            return
        if self._loop.time() < idle_at:
            self._look_at(idle_at)
        else:
            self._report_event.set()

    def give_up(self, reason: str) -> None:
        """Takes no more messages, waits some seconds for answers to those that were sent, and is ``broken`` then."""
        self.fatal = self.fatal or reason

    def metadata(self, topic: str | None, timeout: float) -> Any:
        """librdkafka's ``list_topics`` for one topic, or for all. Blocks up to ``timeout`` seconds. Raises
        KafkaException."""
        return self._producer.list_topics(topic, timeout=timeout)

    async def close(self, timeout: float) -> None:
        """Drops what was not sent: another replica may deliver soon. Waits ``timeout`` seconds at most for reports of
        the rest, then drops that. Afterwards every record has its delivery report."""
        if self.broken is None and self.in_flight:
            self._ending = True
            self._producer.purge(in_flight=False, blocking=False)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.wait(self.produced, timeout), timeout)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._closing.set()
        await self._loop.run_in_executor(self._threads, self._thread.join)

    def _poll_until_closed(self) -> None:
        woken_at = 0
        while not self._closing.is_set():
            self._poll(0.1)
            if self._ending:
                self._drop_queued()
            wakes = self.reported != woken_at and self.reported >= self._wake_at
            if self.fatal is not None and self.broken is None:
                self._drop_queued()
                self._drop_all()
                self.broken, wakes = self.fatal, True
            if wakes:
                woken_at = self.reported
                with suppress(RuntimeError):  # The loop is closed: no task waits.
                    self._loop.call_soon_threadsafe(self._report_event.set)
        self._drop_all()
        # Deletes the last reference here: the destructor waits for librdkafka's threads, and would block the loop.
        del self._producer

    def _poll(self, seconds: float) -> None:
        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            self._on_error(error.args[0])
        except Exception as error:  # An exception of a delivery report surfaces here, at times as a SystemError.
            self.fatal = f"the producer's reports failed: {error!r}"

    def _drop_queued(self) -> None:
        """Drops messages that were not sent, and waits for answers to sent messages: a sent message that is dropped may
        be stored all the same, and would be there twice after its retry."""
        until = time.monotonic() + _ANSWER_TIMEOUT
        while self.in_flight > 0 and time.monotonic() < until and not self._closing.is_set():
            self._producer.purge(in_flight=False)  # Repeated, because librdkafka queues a message to be retried anew.
            self._poll(0.02)

    def _drop_all(self) -> None:
        while self.in_flight > 0:
            self._producer.purge()
            self._poll(0.1)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN or not self.last_error:
            self.last_error = error.str()  # The other errors say why.
        if self._tokens is not None and self._tokens.error is not None:
            # librdkafka only knows that there was an exception.
            self.last_error = str(self._tokens.error)
        if error.fatal():
            self.fatal = error.str()
        elif self.fatal is None and self._is_refusal(error) and self._files.found():
            renewed = "a file of secrets or certificates was renewed, and a new producer reads it"
            self.fatal = f"{self.last_error}; {renewed}"

    def _is_refusal(self, error: KafkaError) -> bool:
        """Of credentials, by librdkafka's code or by its words."""
        return error.code() in _CREDENTIALS or self._refused(self.last_error) is not None


# ── Transactions ─────────────────────────────────────────────────────────────


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


# ── The present producer ─────────────────────────────────────────────────────

_FIRST_LOOK = 1.0
"""Seconds after which ``_ping`` looks whether the brokers have refused the client. It waits twice as long for the next
look: a slow cluster must be able to answer in between."""


class Producers:
    """Blocking calls run in ``threads``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor) -> None:
        self._options = options
        self._config = config
        self._threads = threads
        self.present: KafkaProducer | None = None
        """None before ``open`` and after ``close``."""
        self._aside: list[KafkaProducer] = []
        """Those that wait for their last answers."""
        self._may_send: Callable[[], bool] = always

    async def open(self, may_send: Callable[[], bool] = always) -> str:
        """Returns the address and the size of the cluster that answers. ``may_send``: see SinkContext; without effect
        on transactions, which brokers fence. Raises SinkUnavailable."""
        self._may_send = may_send
        producer = await self._new(gapless=True)
        try:
            found = await self._ping(producer)
        except BaseException:
            await producer.close(0)
            raise
        self.present = producer
        return found

    async def current(self, *, gapless: bool) -> KafkaProducer:
        """The present producer, replaced if it is failing or has the other guarantee. Raises SinkUnavailable."""
        for aside in [each for each in self._aside if each.broken is not None]:
            self._aside.remove(aside)
            await aside.close(0)
        producer, idle_timeout = self.present, self._options.ack_timeout
        if producer is not None and (producer.fatal is not None or producer.gapless is not gapless):
            # Waits for answers first: a record that is dropped unanswered is sent again, and might be there twice.
            if not await producer.wait(producer.produced, idle_timeout):
                raise SinkUnavailable(f"no acknowledgement within {idle_timeout:g} s: {producer.last_error}")
            self.present = None
            await producer.close(0)
        if self.present is None:
            self.present = await self._new(gapless=gapless)
        return self.present

    def set_aside(self, reason: str) -> None:
        """The present producer will get no answer for some messages for long. It waits for them by itself, and another
        takes its place at once: until then, nothing may be sent behind such a message (``KafkaDelivery``)."""
        if self.present is not None:
            self.present.give_up(reason)
            self._aside.append(self.present)
            self.present = None

    async def close(self, timeout: float) -> None:
        """``timeout``: seconds for delivery reports."""
        producer, self.present = self.present, None
        if producer is not None:
            await producer.close(timeout)
        while self._aside:
            await self._aside.pop().close(0)

    async def _new(self, *, gapless: bool) -> KafkaProducer:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._make, loop, gapless)
        except KafkaException as error:
            raise SinkUnavailable(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    def _make(self, loop: asyncio.AbstractEventLoop, gapless: bool) -> KafkaProducer:  # In a thread.
        return KafkaProducer(self._config, self._threads, loop, gapless=gapless, may_send=self._may_send)

    async def _ping(self, producer: KafkaProducer) -> str:
        left, step, loop = float(self._options.connect_timeout), _FIRST_LOOK, asyncio.get_running_loop()
        while True:
            timeout = step if 2 * step < left else left
            left, step = left - timeout, 2 * step
            try:
                cluster = await loop.run_in_executor(self._threads, producer.metadata, None, timeout)
            except KafkaException as error:
                reason = producer.last_error or error.args[0].str()
                if wrong := self._config.refused(reason):
                    raise wrong from error
                if left <= 0:
                    raise SinkUnavailable(unreachable(self._options, reason)) from error
            else:
                servers = self._options.bootstrap_servers
                return f"{servers}, cluster {cluster.cluster_id} of {len(cluster.brokers)} brokers"


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
