"""What an operator may set for Kafka."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sinks.base import EventOptions
from sinks.template import Template, check_template
from sinks.tls import is_loopback

_PLACEHOLDERS = ("cluster", "group", "version", "resource", "kind", "namespace")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")

_OURS = {
    "acks": "a record counts as stored when all in-sync replicas have it",
    "request.required.acks": "a record counts as stored when all in-sync replicas have it",
    "enable.idempotence": "without it a retry may store a record twice, or behind its successor",
    "enable.gapless.guarantee": "without it records may be stored behind one that was refused",
    "max.in.flight": "the idempotent producer chooses it",
    "max.in.flight.requests.per.connection": "the idempotent producer chooses it",
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
"""Settings of librdkafka that cannot be given as properties, and why not."""

_SECRET = re.compile(r".*(password|secret|\.pem)$")
_KEYED_PARTITIONERS = {"murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"}


def _topic(text: str) -> str:
    check_template(text, _PLACEHOLDERS)
    if not _TOPIC.fullmatch(Template(text, "c", escape=str).wildcard("x")):
        raise ValueError(f"{text!r} is no topic: letters, digits, '.', '_' and '-' make one")
    return text


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


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"


class CreateTopics(BaseModel):
    """How a topic is made where it does not exist. One that exists is left as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partitions: int = Field(
        ge=1,
        le=10_000,
        description="Of each topic. Choose well: with another number, keys go to other partitions, and order between"
        " before and after is lost.",
    )
    replication_factor: int = Field(default=-1, ge=-1, le=100, description="-1 for what the brokers have as default.")


class KafkaOptions(EventOptions):
    """One record for each delta: the object is the key, its JSON the value, the CloudEvents attributes the headers."""

    bootstrap_servers: str = Field(
        min_length=1,
        pattern=r"^[^\s,]+(,[^\s,]+)*$",
        description="Brokers to begin with, host:port, separated by commas.",
        examples=["127.0.0.1:9092"],
    )
    topic: Annotated[str, AfterValidator(_topic)] = Field(
        default="k8s.{resource}",
        description="Where records go. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace}; what a"
        " topic's name cannot have becomes _. {resource} is the plural; the core group is called core. Notices (gaps,"
        " the edges of a snapshot) go to the topic with resource notice. All records about one object must meet in one"
        " topic, so there is no {name}.",
    )
    create_topics: CreateTopics | None = Field(
        default=None,
        description="Make topics that do not exist. Off because how many partitions they have and how long records are"
        " kept is for their owner to say; brokers may also do it by themselves (auto.create.topics.enable).",
        examples=[{"partitions": 12, "replication_factor": 3}],
    )
    tombstones: bool = Field(
        default=False,
        description="After a deleted object's last state also send its key without a value, so that a compacted topic"
        " forgets it. Off because consumers must be ready for it.",
    )
    compression: Compression = Field(
        default=Compression.LZ4,
        description="How batches are compressed. lz4 costs the least CPU for a third of the bytes; zstd is smaller.",
    )
    max_message_bytes: int = Field(
        default=1_000_000,
        ge=1000,
        le=1_000_000_000,
        description="Largest record that is sent, in bytes before compression, and largest batch. Larger records are"
        " rejected. Keep it below the max.message.bytes of the topics; their default of 1048588 leaves room for"
        " headers.",
    )
    ack_timeout: float = Field(
        default=10.0,
        gt=0,
        le=300,
        description="Seconds without any acknowledgement before trouble is reported. Nothing is given up: what is under"
        " way stays with the producer, which keeps trying.",
    )
    connect_timeout: float = Field(default=10.0, gt=0, le=120, description="Seconds for a first answer of a broker.")
    client_id: str = Field(default="kubedelta", min_length=1, description="What brokers call the bridge in their logs.")
    security_protocol: SecurityProtocol = Field(
        default=SecurityProtocol.PLAINTEXT, description="How brokers are spoken to."
    )
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, description="How the bridge authenticates, with a sasl_ protocol.", examples=["SCRAM-SHA-512"]
    )
    username: str | None = Field(default=None, description="For PLAIN and SCRAM.", examples=["kubedelta"])
    password_file: Path | None = Field(
        default=None, description="The password of username.", examples=["/run/secrets/password"]
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="Certificate (PEM) to show to brokers.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(default=None, description="Its private key (PEM).", examples=["/run/secrets/tls.key"])
    properties: dict[str, str | int | float | bool] = Field(
        default={},
        description="Further settings of librdkafka (CONFIGURATION.md there), for what has no option of its own. Those"
        " that would break a promise of the bridge are refused.",
        examples=[{"linger.ms": 20, "broker.address.family": "v4"}],
    )
    property_files: dict[str, Path] = Field(
        default={},
        description="The same for settings that are secrets: name to the file that holds the value.",
        examples=[{"sasl.oauthbearer.client.secret": "/run/secrets/oauth"}],
    )

    def clear_text(self) -> str | None:
        hosts = [server.rpartition(":")[0] or server for server in self.bootstrap_servers.split(",")]
        sent = self.sasl_mechanism in (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER)
        if self.security_protocol is not SecurityProtocol.SASL_PLAINTEXT or not sent or all(map(is_loopback, hosts)):
            return None
        what = f"the credentials of {self.sasl_mechanism}"
        return f"security_protocol is sasl_plaintext: anybody on the way can read {what}; use sasl_ssl"

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        _check_properties(self.properties, self.property_files)
        if self.security_protocol.startswith("sasl") != (self.sasl_mechanism is not None):
            raise ValueError("sasl_mechanism and security_protocol sasl_plaintext or sasl_ssl belong together")
        if (self.username is None) != (self.password_file is None):
            raise ValueError("username and password_file belong together")
        if self.username is not None and self.sasl_mechanism is None:
            raise ValueError("username is of no use without sasl_mechanism")
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file belong together")
        tls = self.security_protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
        if (self.ca_file or self.cert_file) and not tls:
            raise ValueError("ca_file and cert_file are of no use without security_protocol ssl or sasl_ssl")
        return self


def _check_properties(properties: dict[str, str | int | float | bool], files: dict[str, Path]) -> None:
    for name in (*properties, *files):
        if name in _OURS:
            raise ValueError(f"{name} cannot be set as a property: {_OURS[name]}")
        if name.endswith("_cb"):
            raise ValueError(f"{name} cannot be set as a property: it is a function")
    for name in properties:
        if _SECRET.fullmatch(name):
            raise ValueError(f"{name} is a secret: put it into property_files")
    partitioner = properties.get("partitioner")
    if partitioner is not None and partitioner not in _KEYED_PARTITIONERS:
        allowed = ", ".join(sorted(_KEYED_PARTITIONERS))
        raise ValueError(f"partitioner {partitioner!r} does not keep a key in one partition; allowed are {allowed}")
