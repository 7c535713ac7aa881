"""The present producer of a sink, replaced when it fails.

Brokers refuse a batch because of a single record in it, and librdkafka is then unusable. To drop the records in flight
to other partitions and send them again delivered them twice, so a broken producer waits for its answers first. To
compare sizes with each topic's ``max.message.bytes`` before needs another right, and compressed sizes are not known
then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

from confluent_kafka import KafkaException

from sinks.base import always
from sinks.errors import NotLeading, SinkUnavailable
from sinks.kafka.auth.refusals import refusal, unreachable
from sinks.kafka.client.config import ClientConfig
from sinks.kafka.client.producer import InFlight, KafkaProducer
from sinks.kafka.encode import KafkaMessage
from sinks.kafka.options import KafkaOptions

_FIRST_LOOK = 1.0
"""Seconds after which ``_ping`` looks whether the brokers have refused the client. It waits twice as long for the next
look: a slow cluster must be able to answer in between."""


class AskingProducer(KafkaProducer):
    """Takes messages only while this replica may send. librdkafka sends by itself what it has taken."""

    def __init__(self, *parameters: Any, may_send: Callable[[], bool], gapless: bool) -> None:
        """``may_send``: see ``AsksToSend``."""
        super().__init__(*parameters, gapless=gapless)
        self._may_send = may_send

    def produce(self, record: InFlight, message: KafkaMessage, value: bytes | None) -> bool:
        """Raises NotLeading, too."""
        if not self._may_send():
            raise NotLeading
        return super().produce(record, message, value)

    def send(self, messages: Iterable[KafkaMessage]) -> list[InFlight]:
        return super().send(messages) if self._may_send() else []


class Producers:
    """Blocking calls run in ``threads``."""

    def __init__(self, options: KafkaOptions, config: ClientConfig, threads: Executor) -> None:
        self._options = options
        self._config = config
        self._threads = threads
        self.present: KafkaProducer | None = None
        """None before ``open`` and after ``close``."""
        self.may_send: Callable[[], bool] = always
        """See ``AsksToSend``. Without effect on transactions: brokers fence them."""

    async def open(self) -> str:
        """Returns the address and the size of the cluster that answers. Raises SinkUnavailable."""
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

    async def close(self, timeout: float) -> None:
        """``timeout``: seconds for delivery reports."""
        producer, self.present = self.present, None
        if producer is not None:
            await producer.close(timeout)

    async def _new(self, *, gapless: bool) -> KafkaProducer:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self._make, loop, gapless)
        except KafkaException as error:
            raise SinkUnavailable(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    def _make(self, loop: asyncio.AbstractEventLoop, gapless: bool) -> KafkaProducer:  # In a thread.
        if self.may_send is always:
            return KafkaProducer(self._config, self._threads, loop, gapless=gapless)
        return AskingProducer(self._config, self._threads, loop, may_send=self.may_send, gapless=gapless)

    async def _ping(self, producer: KafkaProducer) -> str:
        left, step, loop = float(self._options.connect_timeout), _FIRST_LOOK, asyncio.get_running_loop()
        while True:
            timeout = step if 2 * step < left else left
            left, step = left - timeout, 2 * step
            try:
                cluster = await loop.run_in_executor(self._threads, producer.metadata, None, timeout)
            except KafkaException as error:
                reason = producer.last_error or error.args[0].str()
                if wrong := refusal(self._options, reason):
                    raise wrong from error
                if left <= 0:
                    raise SinkUnavailable(unreachable(self._options, reason)) from error
            else:
                servers = self._options.bootstrap_servers
                return f"{servers}, cluster {cluster.cluster_id} of {len(cluster.brokers)} brokers"
