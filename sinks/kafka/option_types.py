"""The types of a Kafka sink's options: brokers, topics, settings of librdkafka, protocols."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias

from config.values import PORT, Matching, Names
from sinks.template import check_template, template_pattern

TOPIC_PLACEHOLDERS = ("cluster", "group", "version", "resource", "kind", "namespace")

_OURS = {
    "acks": "a record counts as stored when all in-sync replicas have it",
    "request.required.acks": "a record counts as stored when all in-sync replicas have it",
    "enable.idempotence": "without it a retry may store a record twice, or behind its successor",
    "enable.gapless.guarantee": "without it records may be stored behind one that was refused",
    "max.in.flight": "with more than one, a first batch may be lost",
    "max.in.flight.requests.per.connection": "with more than one, a first batch may be lost",
    "retries": "a record is retried until it is stored or refused",
    "message.send.max.retries": "a record is retried until it is stored or refused",
    "message.timeout.ms": "a record that timed out would be skipped and later ones stored; see ack_timeout",
    "delivery.timeout.ms": "a record that timed out would be skipped and later ones stored; see ack_timeout",
    "transactional.id": "with exactly_once it is made of the names of cluster and sink",
    "isolation.level": "with exactly_once the sink reads committed records, otherwise all",
    "delivery.report.only.error": "the sink waits for the report of every record",
    "bootstrap.servers": "set bootstrap_servers",
    "metadata.broker.list": "set bootstrap_servers",
    "client.id": "set client_id",
    "compression.type": "set compression",
    "compression.codec": "set compression",
    "message.max.bytes": "set max_message_bytes",
    "security.protocol": "set security_protocol",
    "sasl.mechanism": "set sasl_mechanism",
    "sasl.mechanisms": "set sasl_mechanism",
    "sasl.username": "set username",
    "ssl.ca.location": "set ca_file",
    "ssl.certificate.location": "set cert_file",
    "ssl.key.location": "set key_file",
}
"""Settings of librdkafka that cannot be properties → the reason."""

_SECRET = r"(?:.*)(?:password|secret|\.pem)"  # noqa: S105  # A pattern of names.
_TAKEN = "|".join(map(re.escape, _OURS))


def _why_not_ours(name: str) -> str:
    if name in _OURS:
        return f"{name} cannot be set as a property: {_OURS[name]}"
    if name.endswith("_cb"):
        return f"{name} cannot be set as a property: it is a function"
    if re.fullmatch(_SECRET, name):
        return f"{name} is a secret: put it into property_files"
    return f"{name!r} is no setting of librdkafka: names have small letters, digits, '.' and '_'"


_PROPERTY_OF_FILE = Matching(rf"(?!(?:{_TAKEN}|.*_cb)$)[a-z0-9._]+", _why_not_ours, longest=128)
_PROPERTY = Matching(rf"(?!(?:{_TAKEN}|.*_cb|{_SECRET})$)[a-z0-9._]+", _why_not_ours, longest=128)
Properties: TypeAlias = Annotated[dict[str, str | int | float | bool], Names(_PROPERTY)]
PropertyFiles: TypeAlias = Annotated[dict[str, Path], Names(_PROPERTY_OF_FILE)]
KEYED_PARTITIONERS = ("consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2", "murmur2_random")
_BROKER = rf"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::{PORT})?"


def _why_no_brokers(text: str) -> str:
    if "://" in text:
        return "host:port is expected, without http:// or kafka:// in front of it; see security_protocol for TLS"
    if "@" in text:
        return "host:port is expected; user and password do not belong here: see username and password_file"
    return "brokers are expected as host:port, separated by commas, such as kafka-0:9092,kafka-1:9092"


def _why_no_topic(text: str) -> str:
    check_template(text, TOPIC_PLACEHOLDERS)
    return f"{text!r} is no topic: letters, digits, '.', '_' and '-' make one"


def _why_no_name(text: str) -> str:
    return f"{text!r} is no topic: at most 249 letters, digits, '.', '_' and '-' make one; no placeholders here"


Brokers: TypeAlias = Annotated[str, Matching(f"{_BROKER}(?:,{_BROKER})*", _why_no_brokers)]
TopicTemplate: TypeAlias = Annotated[
    str, Matching(template_pattern("[A-Za-z0-9._-]", TOPIC_PLACEHOLDERS), _why_no_topic)
]
TopicName: TypeAlias = Annotated[str, Matching("[A-Za-z0-9._-]{1,249}", _why_no_name)]


class SecurityProtocol(StrEnum):
    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    GSSAPI = "GSSAPI"
    OAUTHBEARER = "OAUTHBEARER"


class RecordKey(StrEnum):
    """The key of an object's records."""

    OBJECT = "object"
    UID = "uid"
    NAMESPACE = "namespace"


class WhenTooLarge(StrEnum):
    """The policy for a record that is too large."""

    REJECT = "reject"
    TRIM = "trim"
    COMPRESS = "compress"


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"
