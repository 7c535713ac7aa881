"""Whether topics are there to be written to. Asked once for each, before its first record: the producer itself would
keep records for an unknown topic for half a minute, and then fail them without saying more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as FuturesTimeout
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from sinks.base import SinkUnavailable
from sinks.kafka.courier import Courier
from sinks.kafka.options import CreateTopics, KafkaOptions
from sinks.kafka.settings import connection_settings

_PAUSES = (0.0, 0.1, 0.2, 0.4, 0.8)
"""Seconds before each look: a topic that was just made, by us or by a broker on being asked, takes a moment."""

_MAY_NOT_ASK = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
_NOT_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE}


class Topics:
    def __init__(self, options: KafkaOptions, threads: Executor) -> None:
        self._options = options
        self._threads = threads
        self._usable: set[str] = set()
        self._compacted: dict[str, bool | None] = {}
        """None where nobody may ask."""

    def forget(self, topic: str) -> None:
        """Look at it again before its next record."""
        self._usable.discard(topic)
        self._compacted.pop(topic, None)

    async def closed(self, courier: Courier, topics: Iterable[str]) -> dict[str, str]:
        """Those of the topics that cannot be written to now, and why."""
        unknown = set(topics) - self._usable
        if not unknown:
            return {}
        closed = await asyncio.get_running_loop().run_in_executor(self._threads, self._look, courier, unknown)
        self._usable |= unknown - closed.keys()
        return closed

    # ── For markers ──────────────────────────────────────────────────────────

    async def there(self, courier: Courier) -> dict[str, int]:
        """Every topic that may be seen, with the number of its partitions. Raises SinkUnavailable."""
        timeout = self._options.connect_timeout
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, courier.topics, None, timeout)
        except KafkaException as error:
            raise SinkUnavailable(courier.trouble or error.args[0].str()) from error
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    async def compacted(self, topics: Iterable[str]) -> dict[str, bool | None]:
        """Whether only the newest record of each key is kept there, so that a record without a key is refused; None
        where nobody may ask."""
        wanted = set(topics)
        if unknown := sorted(wanted - self._compacted.keys()):
            found = await asyncio.get_running_loop().run_in_executor(self._threads, self._policies, unknown)
            self._compacted |= found
        return {topic: self._compacted.get(topic) for topic in wanted}

    def learn(self, topic: str, *, compacted: bool) -> None:
        """A broker showed it."""
        self._compacted[topic] = compacted

    def _policies(self, topics: list[str]) -> dict[str, bool | None]:
        """Without those that nobody answered for now."""
        try:
            admin = AdminClient(connection_settings(self._options) | {"log_level": 0})
        except (KafkaException, SinkUnavailable):
            return {}
        timeout = self._options.connect_timeout
        asked = admin.describe_configs(
            [ConfigResource(ResourceType.TOPIC, topic) for topic in topics], request_timeout=timeout
        )
        found: dict[str, bool | None] = {}
        for resource, answer in asked.items():
            try:
                found[resource.name] = "compact" in answer.result(timeout)["cleanup.policy"].value
            except KafkaException as error:
                if error.args[0].code() in _MAY_NOT_ASK:
                    found[resource.name] = None
            except (TimeoutError, KeyError):
                continue
        return found

    def _look(self, courier: Courier, topics: set[str]) -> dict[str, str]:
        closed = dict.fromkeys(topics, "")
        made = False
        try:
            for pause in _PAUSES:
                time.sleep(pause)
                states = {topic: _state(courier, topic, self._options.connect_timeout) for topic in closed}
                closed = {topic: _why(topic, error) for topic, error in states.items() if error is not None}
                missing = [topic for topic, error in states.items() if error and error.code() in _NOT_YET]
                if not missing:
                    break
                if self._options.create_topics and not made:
                    closed |= self._make(missing, self._options.create_topics)
                    made = True
        except KafkaException as error:
            reason = courier.trouble or error.args[0].str()
            return dict.fromkeys(closed, reason)
        except SinkUnavailable as error:
            return dict.fromkeys(closed, str(error))
        return closed

    def _make(self, topics: list[str], how: CreateTopics) -> dict[str, str]:
        """Returns those that could not be made, and why."""
        admin = AdminClient(connection_settings(self._options) | {"log_level": 0})
        wanted = [NewTopic(topic, how.partitions, how.replication_factor) for topic in topics]
        failed = {}
        for topic, made in admin.create_topics(wanted, operation_timeout=self._options.connect_timeout).items():
            try:
                made.result(self._options.connect_timeout)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    failed[topic] = f"topic {topic} cannot be made: {error.args[0].str()}"
        return failed


def missing_topics(options: KafkaOptions, wanted: Sequence[str]) -> list[str]:
    """Those that are not there, where neither the sink nor the brokers make them. Blocks. Raises SinkUnavailable."""
    if options.create_topics is not None:
        return []
    timeout = options.connect_timeout
    try:
        admin = AdminClient(connection_settings(options) | {"log_level": 0})
        # All of them: asked for one by name, a broker may make it.
        found = admin.list_topics(timeout=timeout)
        missing = [topic for topic in dict.fromkeys(wanted) if topic not in found.topics]
        return [] if missing and _brokers_make_topics(admin, found, timeout) else missing
    except KafkaException as error:
        raise SinkUnavailable(f"cannot look at topics of {options.bootstrap_servers}: {error.args[0].str()}") from error


def _brokers_make_topics(admin: AdminClient, found: Any, timeout: float) -> bool:
    """False also where that may not be asked: then somebody should look."""
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(found.brokers))))
    (answer,) = admin.describe_configs([broker], request_timeout=timeout).values()
    try:
        return str(answer.result(timeout)["auto.create.topics.enable"].value).lower() == "true"
    except (KafkaException, KeyError, FuturesTimeout):
        return False


def _state(courier: Courier, topic: str, timeout: float) -> KafkaError | None:
    """None where it can be written to."""
    found = courier.topics(topic, timeout).topics[topic]
    if found.error is not None:
        error: KafkaError = found.error
        return error
    return None if found.partitions else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)


def _why(topic: str, error: KafkaError) -> str:
    if error.code() in _NOT_YET:
        return f"topic {topic} does not exist; make it, or set create_topics"
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return f"topic {topic}: not authorized to describe and write it"
    return f"topic {topic}: {error.str()}"
