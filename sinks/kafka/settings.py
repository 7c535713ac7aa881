"""The options in librdkafka's words."""

from __future__ import annotations

from typing import Any

from sinks.base import read_secret
from sinks.kafka.options import KafkaOptions

_QUEUE_KBYTES = 32 * 1024
"""The producer's queue is bounded by this; librdkafka's own default is a gigabyte."""


def connection_settings(options: KafkaOptions) -> dict[str, Any]:
    """What any client needs to reach the brokers. Reads the files of secrets: raises WrongOption."""
    settings: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "client.id": options.client_id,
        "security.protocol": options.security_protocol.value,
        "socket.keepalive.enable": True,
    }
    if options.sasl_mechanism is not None:
        settings["sasl.mechanism"] = options.sasl_mechanism.value
    if options.username is not None and options.password_file is not None:
        settings |= {
            "sasl.username": options.username,
            "sasl.password": read_secret(options.password_file, "password_file"),
        }
    if options.ca_file is not None:
        settings["ssl.ca.location"] = str(options.ca_file)
    if options.cert_file is not None and options.key_file is not None:
        settings |= {"ssl.certificate.location": str(options.cert_file), "ssl.key.location": str(options.key_file)}
    settings |= options.properties
    settings |= {name: read_secret(path, f"property_files.{name}") for name, path in options.property_files.items()}
    return settings


def producer_settings(options: KafkaOptions, *, gapless: bool) -> dict[str, Any]:
    """With ``gapless`` a batch that the broker refuses stops the producer, before anything behind it is stored."""
    defaults = {
        # A batch is produced in one go and then waited for: nothing more comes to whoever lingers.
        "linger.ms": 1,
        # Java's partitioner, so that other producers' records of the same key meet ours. librdkafka has another.
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 20_000,
        "queue.buffering.max.kbytes": max(_QUEUE_KBYTES, 4 * options.max_message_bytes // 1024),
    }
    promised = {
        "enable.idempotence": True,
        "enable.gapless.guarantee": gapless,
        "message.timeout.ms": 0,
        # A partition that is not ready yet (made or moved a moment ago) may refuse a producer's first batch for now and
        # take its second: to a broker any number is the first of a producer that it has not met. librdkafka then counts
        # both as stored. Each request has a batch of one partition; every broker has one under way.
        "max.in.flight.requests.per.connection": 1,
        "compression.type": options.compression.value,
        "message.max.bytes": options.max_message_bytes,
        "batch.size": min(1_000_000, options.max_message_bytes),
    }
    return defaults | promised | connection_settings(options)
