"""Configuration properties of librdkafka (CONFIGURATION.md there), made of the sink's options."""

from __future__ import annotations

from typing import Any

from sinks.kafka.options import KafkaOptions
from sinks.secret_files import read_secret

_QUEUE_KBYTES = 32 * 1024
"""Bound of the producer's queue; librdkafka's default is a gigabyte."""


def connection_config(options: KafkaOptions) -> dict[str, Any]:
    """Properties that every client needs to reach the brokers. Reads the files of secrets: blocks, raises
    WrongOption."""
    config: dict[str, Any] = {
        "bootstrap.servers": options.bootstrap_servers,
        "client.id": options.client_id,
        "security.protocol": options.security_protocol.value,
        "socket.keepalive.enable": True,
    }
    if options.sasl_mechanism is not None:
        config["sasl.mechanism"] = options.sasl_mechanism.value
    if options.username is not None and options.password_file is not None:
        config |= {
            "sasl.username": options.username,
            "sasl.password": read_secret(options.password_file, "password_file"),
        }
    if options.ca_file is not None:
        config["ssl.ca.location"] = str(options.ca_file)
    if options.cert_file is not None and options.key_file is not None:
        config |= {"ssl.certificate.location": str(options.cert_file), "ssl.key.location": str(options.key_file)}
    config |= options.properties
    config |= {name: read_secret(path, f"property_files.{name}") for name, path in options.property_files.items()}
    return config


def producer_config(options: KafkaOptions, *, gapless: bool) -> dict[str, Any]:
    """Properties of an idempotent producer. With ``gapless``, a refused batch stops the producer before any later
    message is stored."""
    defaults = {
        # Changes are gathered before they are compared: a further wait would add latency, and one more wake-up.
        "linger.ms": 0,
        # The default of Kafka's Java clients, so that all producers put a key into the same partition. librdkafka's
        # default differs.
        "partitioner": "murmur2_random",
        "queue.buffering.max.messages": 20_000,
        "queue.buffering.max.kbytes": max(_QUEUE_KBYTES, 4 * options.max_message_bytes // 1024),
    }
    required = {
        "enable.idempotence": True,
        "enable.gapless.guarantee": gapless,
        "message.timeout.ms": 0,
        # A partition that was created or moved a moment ago may refuse a producer's first batch and take the second
        # one: a broker accepts any sequence number from a producer that is new to it. librdkafka then counts both
        # batches as stored. With one request per broker there is no second batch to accept.
        "max.in.flight.requests.per.connection": 1,
        "compression.type": options.compression.value,
        "message.max.bytes": options.max_message_bytes,
        "batch.size": min(1_000_000, options.max_message_bytes),
    }
    return defaults | required | connection_config(options)
