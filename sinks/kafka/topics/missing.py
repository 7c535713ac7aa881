"""Topics that do not exist, without asking for them by name: a broker may create a topic that is asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import TimeoutError as FuturesTimeout
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from sinks.errors import SinkUnavailable
from sinks.kafka.client.config import ClientConfig
from sinks.kafka.options import KafkaOptions


def missing_topics(
    options: KafkaOptions, config: ClientConfig, wanted: Sequence[str], compact_only: Collection[str]
) -> list[str]:
    """The wanted topics that do not exist and that neither the sink nor the brokers create. Brokers create none that is
    compacted (``compact_only``). Blocks. Raises SinkUnavailable."""
    if options.create_topics is not None:
        return []
    timeout = options.connect_timeout
    try:
        admin = AdminClient(config.connection() | {"log_level": 0})
        # Asks for all topics: a broker may create a topic that is asked for by name.
        found = admin.list_topics(timeout=timeout)
        missing = [topic for topic in dict.fromkeys(wanted) if topic not in found.topics]
        if missing and _brokers_create_topics(admin, found, timeout):
            return [topic for topic in missing if topic in compact_only]
        return missing
    except KafkaException as error:
        raise SinkUnavailable(f"cannot look at topics of {options.bootstrap_servers}: {error.args[0].str()}") from error


def _brokers_create_topics(admin: AdminClient, found: Any, timeout: float) -> bool:
    """False also where asking is not permitted: the operator should know of topics that may be missing."""
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(found.brokers))))
    (answer,) = admin.describe_configs([broker], request_timeout=timeout).values()
    try:
        return str(answer.result(timeout)["auto.create.topics.enable"].value).lower() == "true"
    except (KafkaException, KeyError, FuturesTimeout):
        return False
