"""The options of a Kafka sink."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from bridge.model.primitives.addresses import is_loopback
from config.rules import AnyOf, Contains, Given, Is, Rule, needs, together
from config.values import PORT, Between, Count, Duration, Flag, Matching, Names, Size
from sinks.options import OBJECTS_ALONE, EventOptions
from sinks.template import check_template, template_pattern

_PLACEHOLDERS = ("cluster", "group", "version", "resource", "kind", "namespace")

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
    "transactional.id": "the sink does not use transactions",
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
_KEYED_PARTITIONERS = ("consistent", "consistent_random", "fnv1a", "fnv1a_random", "murmur2", "murmur2_random")
_BROKER = rf"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::{PORT})?"


def _why_no_brokers(text: str) -> str:
    if "://" in text:
        return "host:port is expected, without http:// or kafka:// in front of it; see security_protocol for TLS"
    if "@" in text:
        return "host:port is expected; user and password do not belong here: see username and password_file"
    return "brokers are expected as host:port, separated by commas, such as kafka-0:9092,kafka-1:9092"


def _why_no_topic(text: str) -> str:
    check_template(text, _PLACEHOLDERS)
    return f"{text!r} is no topic: letters, digits, '.', '_' and '-' make one"


def _why_no_name(text: str) -> str:
    return f"{text!r} is no topic: at most 249 letters, digits, '.', '_' and '-' make one; no placeholders here"


class SecurityProtocol(StrEnum):
    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"


_NOTICES_APART = AnyOf(
    Given("notice_topic"),
    Contains("topic", "{resource}", default=True),
    *(Contains("topic", name) for name in ("{kind}", "{group}", "{version}")),
)
_SASL = (SecurityProtocol.SASL_PLAINTEXT.value, SecurityProtocol.SASL_SSL.value)
_TLS = (SecurityProtocol.SSL.value, SecurityProtocol.SASL_SSL.value)
_SASL_BOTH = "sasl_mechanism and security_protocol sasl_plaintext or sasl_ssl belong together"
_TLS_ALONE = "ca_file and cert_file are of no use without security_protocol ssl or sasl_ssl"


class SaslMechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    GSSAPI = "GSSAPI"
    OAUTHBEARER = "OAUTHBEARER"


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"


class CreateTopics(BaseModel):
    """How the sink creates a missing topic. An existing topic is not changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions: Count = Field(
        ge=1,
        le=10_000,
        description="Partitions of each topic. Choose well: when the number is changed later, keys go to other"
        " partitions, and the order of their earlier and later records is lost.",
    )
    replication_factor: Count = Field(default=-1, ge=-1, le=100, description="-1 for the default of the brokers.")


class KafkaOptions(EventOptions):
    """A record for each delta: the object is the key, its JSON the value, the CloudEvents attributes the headers."""

    bootstrap_servers: Annotated[str, Matching(f"{_BROKER}(?:,{_BROKER})*", _why_no_brokers)] = Field(
        description="The first brokers to ask, host:port, separated by commas.",
        examples=["127.0.0.1:9092"],
    )
    topic: Annotated[str, Matching(template_pattern("[A-Za-z0-9._-]", _PLACEHOLDERS), _why_no_topic)] = Field(
        default="k8s.{resource}",
        description="The topic of records. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace};"
        " characters that Kafka forbids in a topic's name become _. {resource} is the plural; the core group is called"
        " core. Notices (gaps, the edges of a snapshot) go to notice_topic. All records of an object must be in the"
        " same topic, so there is no {name}.",
    )
    notice_topic: Annotated[str, Matching("[A-Za-z0-9._-]{1,249}", _why_no_name)] | None = Field(
        default=None,
        description="The topic of notices (gaps, the edges of a snapshot). By default the topic above, with notice as"
        " the {resource}. In formats other than cloudevents, no record of an object may go to this topic.",
        examples=["k8s.notice"],
    )
    create_topics: CreateTopics | None = Field(
        default=None,
        description="Create missing topics. Off because the owner of a topic should decide on its partitions and its"
        " retention. Brokers may create topics by themselves (auto.create.topics.enable).",
        examples=[{"partitions": 12, "replication_factor": 3}],
    )
    tombstones: Flag = Field(
        default=False,
        description="After the last state of a deleted object, also send its key without a value, so that a compacted"
        " topic forgets the object. Off because consumers must be ready for such records.",
    )
    compression: Compression = Field(
        default=Compression.LZ4,
        description="Compression of batches. lz4 costs the least CPU for a third of the bytes; zstd is smaller.",
    )
    max_message_bytes: Annotated[Size, Between(1000, 1_000_000_000)] = Field(
        default=Size(1_000_000),
        description="Largest record and largest batch, before compression. Larger records are rejected. Keep the limit"
        " below max.message.bytes of the topics; their default of 1048588 leaves room for headers.",
    )
    ack_timeout: Annotated[Duration, Between(0.001, 300)] = Field(
        default=Duration(10),
        description="Idle timeout: after this time without an acknowledgement, the delivery counts as failed. Records"
        " in flight stay with the producer, which keeps trying.",
    )
    connect_timeout: Annotated[Duration, Between(0.001, 120)] = Field(
        default=Duration(10), description="Timeout for the first answer of a broker."
    )
    client_id: str = Field(
        default="kubedelta", min_length=1, description="The name of the bridge in the logs of brokers."
    )
    security_protocol: SecurityProtocol = Field(
        default=SecurityProtocol.PLAINTEXT, description="The protocol between bridge and brokers."
    )
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="How the bridge authenticates; needs a sasl_ protocol.", examples=["SCRAM-SHA-512"]
    )
    username: str | None = Field(default=None, description="The user, for PLAIN and SCRAM.", examples=["kubedelta"])
    password_file: Path | None = Field(
        default=None, description="A file with the password of username.", examples=["/run/secrets/password"]
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust, in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="The certificate (PEM) to show to brokers.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None, description="The private key (PEM) of cert_file.", examples=["/run/secrets/tls.key"]
    )
    properties: Annotated[dict[str, str | int | float | bool], Names(_PROPERTY)] = Field(
        default={},
        description="Further settings of librdkafka (see its CONFIGURATION.md). Settings that have an option of their"
        " own, or would break a guarantee of the bridge, are refused.",
        examples=[{"linger.ms": 20, "broker.address.family": "v4"}],
        json_schema_extra={"allOf": [{"properties": {"partitioner": {"enum": [*_KEYED_PARTITIONERS]}}}]},
    )
    property_files: Annotated[dict[str, Path], Names(_PROPERTY_OF_FILE)] = Field(
        default={},
        description="Further settings that are secrets: name to the file that holds the value.",
        examples=[{"sasl.oauthbearer.client.secret": "/run/secrets/oauth"}],
    )

    rules = (
        *EventOptions.rules,
        Rule(Is("security_protocol", *_SASL), Given("sasl_mechanism"), _SASL_BOTH),
        Rule(Given("sasl_mechanism"), Is("security_protocol", *_SASL), _SASL_BOTH),
        *together("username", "password_file"),
        needs("username", "sasl_mechanism"),
        *together("cert_file", "key_file"),
        Rule(
            Is("format", *OBJECTS_ALONE),
            _NOTICES_APART,
            "formats other than cloudevents need notice_topic where topic has none of {resource} {kind} {group}"
            " {version}: readers of objects stop at a notice",
        ),
        Rule(AnyOf(Given("ca_file"), Given("cert_file")), Is("security_protocol", *_TLS), _TLS_ALONE),
    )

    def clear_text(self) -> str | None:
        hosts = [server.rpartition(":")[0] or server for server in self.bootstrap_servers.split(",")]
        sent = self.sasl_mechanism in (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER)
        if self.security_protocol is not SecurityProtocol.SASL_PLAINTEXT or not sent or all(map(is_loopback, hosts)):
            return None
        credentials = f"the credentials of {self.sasl_mechanism}"
        return f"security_protocol is sasl_plaintext: anybody on the way can read {credentials}; use sasl_ssl"

    @field_validator("properties")
    @classmethod
    def _keeps_a_key_in_one_partition(cls, properties: dict[str, object]) -> dict[str, object]:
        partitioner = properties.get("partitioner")
        if partitioner is not None and partitioner not in _KEYED_PARTITIONERS:
            allowed = ", ".join(_KEYED_PARTITIONERS)
            raise ValueError(f"partitioner {partitioner!r} does not keep a key in one partition; allowed are {allowed}")
        return properties
