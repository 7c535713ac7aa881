"""The options of a Kafka sink: their types (brokers, topics, settings of librdkafka, protocols), the mappings among
them, and the rules between them. ``claims`` names the topics. As all options, they need no client library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from bridge.model.primitives.network import is_loopback
from bridge.model.primitives.shard import Shard, ShardBy
from config.rules import AnyOf, Condition, Contains, Given, HasName, Is, Not, Rule, needs, together
from config.values import HOST, PORT, Between, CaFile, CertFile, Count, Duration, Flag, Matching, Names, Section, Size
from sinks.base import Claim
from sinks.options import NAMES_NEED_ORDER, OBJECTS_ALONE, EventOptions
from sinks.receipt import WrongOption
from sinks.state import state_rules
from sinks.template import check_template, template_pattern

# ── Types of options ─────────────────────────────────────────────────────────

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


BootstrapServers: TypeAlias = Annotated[str, Matching(f"{_BROKER}(?:,{_BROKER})*", _why_no_brokers)]
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


# ── Mappings ─────────────────────────────────────────────────────────────────

_TOKEN_URL = Matching(
    rf"https?://{HOST}(?::{PORT})?(?:[/?][^\x00-\x20\x7f#]*)?",
    "a URL that begins with https:// or http:// and names a host is needed, without user and password",
)
_TEXT = Matching(r"[\x20-\x7e]+", "printable ASCII is expected", longest=1024)
_SCOPE = Matching(r"[\x21\x23-\x5b\x5d-\x7e]+", "a scope is one word of printable ASCII without quotes", longest=1024)
_EXTENSION = Matching(
    r"(?!auth$)[A-Za-z]+", lambda name: f"{name!r} is no name of an extension: letters, and not auth", longest=128
)
_EXTENSION_VALUE = Matching(
    r"[\x21-\x2b\x2d-\x7e]+", "printable ASCII without spaces and commas is expected", longest=1024
)

Extensions: TypeAlias = Annotated[dict[str, Annotated[str, _EXTENSION_VALUE]], Names(_EXTENSION)]


class CreateTopics(Section):
    """How the sink creates a missing topic. An existing topic is not changed."""

    partitions: Count = Field(
        ge=1,
        le=10_000,
        description="Partitions of each topic. After a later change, keys go to other partitions, without an order "
        "between their earlier and later records.",
    )
    replication_factor: Count = Field(default=-1, ge=-1, le=100, description="-1 for the default of the brokers.")


class TokenEndpointOptions(Section):
    """The client credentials grant of OAuth 2.0, as OpenID Connect has it: the access token is a JWT."""

    token_url: Annotated[str, _TOKEN_URL] = Field(
        description="The token endpoint.",
        examples=["https://idp.example.test/oauth2/token"],
    )
    client_id: Annotated[str, _TEXT] = Field(description="The client's id.", examples=["kubedelta"])
    client_secret_file: Path = Field(
        description="The file with the client's secret.", examples=["/run/secrets/kafka-client"]
    )
    scopes: tuple[Annotated[str, _SCOPE], ...] = Field(
        default=(), max_length=100, description="The scopes to ask for.", examples=[["kafka"]]
    )
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust for token_url, in place of the system's.",
        examples=["/run/secrets/idp-ca.crt"],
    )


# ── Rules of authentication ──────────────────────────────────────────────────

_SASL = (SecurityProtocol.SASL_PLAINTEXT.value, SecurityProtocol.SASL_SSL.value)
_TLS = (SecurityProtocol.SSL.value, SecurityProtocol.SASL_SSL.value)
_SASL_BOTH = "sasl_mechanism and security_protocol sasl_plaintext or sasl_ssl belong together"
_TLS_ALONE = "ca_file and cert_file are of no use without security_protocol ssl or sasl_ssl"
_PASSWORDS = (SaslMechanism.PLAIN.value, SaslMechanism.SCRAM_SHA_256.value, SaslMechanism.SCRAM_SHA_512.value)
_OAUTHBEARER = Is("sasl_mechanism", SaslMechanism.OAUTHBEARER.value)
_SOURCES: tuple[Condition, ...] = (
    Given("token_command"),
    Given("oauth2"),
    HasName("properties", "sasl.oauthbearer"),
)
_ONE_SOURCE = "sasl_mechanism OAUTHBEARER needs one of token_command and oauth2, or properties sasl.oauthbearer.*"
_SOURCES_ALONE = "token_command, oauth2 and sasl_extensions belong to sasl_mechanism OAUTHBEARER"
_EXTENDED = "sasl_extensions belong to tokens of token_command and oauth2; elsewhere set sasl.oauthbearer.extensions"

_AUTHENTICATION_RULES = (
    Rule(Is("security_protocol", *_SASL), Given("sasl_mechanism"), _SASL_BOTH),
    Rule(Given("sasl_mechanism"), Is("security_protocol", *_SASL), _SASL_BOTH),
    *together("username", "password_file"),
    needs("username", "sasl_mechanism"),
    Rule(Is("sasl_mechanism", *_PASSWORDS), Given("username"), "PLAIN and SCRAM need username and password_file"),
    Rule(Given("username"), Is("sasl_mechanism", *_PASSWORDS), "username and password_file are for PLAIN and SCRAM"),
    Rule(_OAUTHBEARER, AnyOf(*_SOURCES), _ONE_SOURCE),
    Rule(Given("token_command"), Not(AnyOf(*_SOURCES[1:])), _ONE_SOURCE),
    Rule(Given("oauth2"), Not(_SOURCES[2]), _ONE_SOURCE),
    Rule(AnyOf(Given("token_command"), Given("oauth2"), HasName("sasl_extensions")), _OAUTHBEARER, _SOURCES_ALONE),
    Rule(HasName("sasl_extensions"), AnyOf(*_SOURCES[:2]), _EXTENDED),
    *together("cert_file", "key_file"),
    Rule(AnyOf(Given("ca_file"), Given("cert_file")), Is("security_protocol", *_TLS), _TLS_ALONE),
)
"""Rules between the options of a connection to brokers."""


# ── The options ──────────────────────────────────────────────────────────────

_NOTICES_APART = AnyOf(
    Given("notice_topic"),
    Contains("topic", "{resource}", default=True),
    *(Contains("topic", name) for name in ("{kind}", "{group}", "{version}")),
)
_ARGUMENT = Matching(r"[^\x00]*", "an argument of a program has no NUL")


class KafkaOptions(EventOptions):
    """A record for each delta: the object is the key, its JSON the value, the CloudEvents attributes the headers."""

    exactly_once: Flag = Field(
        default=False,
        description="Deliver in transactions: readers of committed records see each once, through kills of bridge and "
        "brokers. It needs further rights (docs/sinks/kafka.md).",
    )
    progress_topic: TopicName | None = Field(
        default=None,
        description="The topic with the progress of sinks with exactly_once, by default kubedelta-progress. It must "
        "have cleanup.policy compact; sinks may share it.",
        examples=["kubedelta-progress"],
    )

    bootstrap_servers: BootstrapServers = Field(
        description="The first brokers to ask, host:port, separated by commas.",
        examples=["127.0.0.1:9092"],
    )
    topic: TopicTemplate = Field(
        default="k8s.{resource}",
        description="The topic of records. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace}; "
        "characters that Kafka forbids become _. {resource} is the plural; the core group is called core. An "
        "object's records must be in one topic, so there is no {name}.",
    )
    notice_topic: TopicName | None = Field(
        default=None,
        description="The topic of notices (gaps, the edges of a snapshot). By default the topic above, with "
        "notice as the {resource}. In formats other than cloudevents, no record of an object may go to this topic.",
        examples=["k8s.notice"],
    )
    state_topic: TopicTemplate | None = Field(
        default=None,
        description="A compacted topic with the newest record of each object, beside the history "
        "(docs/sinks/state.md). Placeholders as in topic. It must have cleanup.policy compact, and no other "
        "records. Set it with a new sink.",
        examples=["k8s-state.{resource}"],
    )
    create_topics: CreateTopics | None = Field(
        default=None,
        description="Create missing topics, a state_topic as a compacted one. Off because the owner of a topic should "
        "decide on partitions and retention.",
        examples=[{"partitions": 12, "replication_factor": 3}],
    )
    key: RecordKey = Field(
        default=RecordKey.OBJECT,
        description="The key of records, which decides on partition and compaction (docs/sinks/kafka.md): of the "
        "object's name, its uid or its namespace. Change it with a new topic only.",
    )
    tombstones: Flag = Field(
        default=False,
        description="After the last state of a deleted object, also send its key without a value, so that a compacted "
        "topic forgets it. Off because consumers must be ready for such records.",
    )
    compression: Compression = Field(
        default=Compression.LZ4,
        description="Compression of batches. lz4 costs the least CPU for a third of the bytes; zstd is smaller.",
    )
    max_message_bytes: Annotated[Size, Between(1000, 1_000_000_000)] = Field(
        default=Size(1_000_000),
        description="Largest record and largest batch, before compression. Keep it below max.message.bytes of the "
        "topics.",
    )
    too_large: WhenTooLarge = Field(
        default=WhenTooLarge.REJECT,
        description="For a record above max_message_bytes, or one that brokers refuse for its size "
        "(docs/sinks/kafka.md). reject: a dead letter. trim: parts are left out until it fits. compress: only the "
        "compressed record counts.",
    )
    ack_timeout: Annotated[Duration, Between(0.001, 300)] = Field(
        default=Duration(10),
        description="After this time without an acknowledgement, the delivery counts as failed. The producer keeps "
        "trying.",
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
    token_command: tuple[Annotated[str, _ARGUMENT], ...] | None = Field(
        default=None,
        min_length=1,
        description="For OAUTHBEARER: a program and its arguments, run without a shell. It prints a JSON object with "
        "token (or access_token), expires_at (RFC 3339, or seconds since 1970) or expires_in (seconds), and if "
        "needed principal, and runs again after four fifths of the token's lifetime. Its standard error is logged "
        "at level debug.",
        examples=[["/opt/msk-token", "--region", "eu-central-1"]],
    )
    token_timeout: Annotated[Duration, Between(0.1, 300)] = Field(
        default=Duration(30), description="The time after which token_command is killed."
    )
    oauth2: TokenEndpointOptions | None = Field(
        default=None,
        description="For OAUTHBEARER: access tokens by the client credentials grant, which librdkafka requests "
        "and renews.",
        examples=[
            {
                "token_url": "https://idp.example.test/oauth2/token",
                "client_id": "kubedelta",
                "client_secret_file": "/run/secrets/kafka-client",
            }
        ],
    )
    sasl_extensions: Extensions = Field(
        default={},
        description="For OAUTHBEARER: SASL extensions that the brokers ask for.",
        examples=[{"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}],
    )
    ca_file: CaFile = None
    cert_file: CertFile = None
    key_file: Path | None = Field(
        default=None, description="The private key (PEM) of cert_file.", examples=["/run/secrets/tls.key"]
    )
    properties: Properties = Field(
        default={},
        description="Further settings of librdkafka (see its CONFIGURATION.md), but for those with an option of their "
        "own, and those that would break a guarantee.",
        examples=[{"linger.ms": 20, "broker.address.family": "v4"}],
        json_schema_extra={"allOf": [{"properties": {"partitioner": {"enum": [*KEYED_PARTITIONERS]}}}]},
    )
    property_files: PropertyFiles = Field(
        default={},
        description="Further settings that are secrets: name to the file that holds the value.",
        examples=[{"sasl.oauthbearer.client.secret": "/run/secrets/oauth"}],
    )

    rules = (
        *EventOptions.rules,
        *_AUTHENTICATION_RULES,
        Rule(
            Is("format", *OBJECTS_ALONE),
            _NOTICES_APART,
            "formats other than cloudevents need notice_topic where topic has none of {resource} {kind} {group}"
            " {version}: readers of objects stop at a notice",
        ),
        Rule(
            Is("key", RecordKey.NAMESPACE.value),
            Is("tombstones", False, default=True),
            "with key: namespace a tombstone would make a compacted topic forget the whole namespace: leave out"
            " tombstones, or use key: object",
        ),
        *state_rules("state_topic"),
        Rule(Given("progress_topic"), Is("exactly_once", True), "progress_topic has no effect without exactly_once"),
        Rule(
            Is("key", RecordKey.NAMESPACE.value),
            Not(Given("state_topic")),
            "with key: namespace a state_topic would keep a single record of each namespace: use key: object",
        ),
        Rule(
            Is("too_large", WhenTooLarge.TRIM.value),
            Not(Given("data")),
            "too_large: trim takes parts from objects, and has no effect with data: leave out one of them",
        ),
        Rule(
            Is("too_large", WhenTooLarge.COMPRESS.value),
            Not(Is("compression", Compression.NONE.value)),
            "too_large: compress needs a compression",
        ),
    )

    @property
    def topic_of_progress(self) -> str:
        return self.progress_topic or "kubedelta-progress"

    def against_shards(self, shard: Shard) -> Sequence[WrongOption]:
        found = [*super().against_shards(shard)]
        if shard.by is ShardBy.UID and self.key is not RecordKey.UID:
            if self.state_topic is not None:
                found.append(WrongOption("state_topic", f"{NAMES_NEED_ORDER}, or set key to uid"))
            if self.tombstones:
                found.append(WrongOption("tombstones", f"{NAMES_NEED_ORDER}, or set key to uid"))
        return found

    def clear_text(self) -> str | None:
        hosts = [server.rpartition(":")[0] or server for server in self.bootstrap_servers.split(",")]
        sent = self.sasl_mechanism in (SaslMechanism.PLAIN, SaslMechanism.OAUTHBEARER)
        if self.security_protocol is SecurityProtocol.SASL_PLAINTEXT and sent and not all(map(is_loopback, hosts)):
            credentials = f"the credentials of {self.sasl_mechanism}"
            return f"security_protocol is sasl_plaintext: anybody on the way can read {credentials}; use sasl_ssl"
        if self.oauth2 is not None:
            url = urlsplit(self.oauth2.token_url)
            if url.scheme == "http" and not is_loopback(url.hostname or ""):
                return "oauth2.token_url is http://: anybody on the way can read the client_secret_file; use https://"
        return None

    @field_validator("properties")
    @classmethod
    def _keeps_a_key_in_one_partition(cls, properties: dict[str, object]) -> dict[str, object]:
        partitioner = properties.get("partitioner")
        if partitioner is not None and partitioner not in KEYED_PARTITIONERS:
            allowed = ", ".join(KEYED_PARTITIONERS)
            raise ValueError(f"partitioner {partitioner!r} does not keep a key in one partition; allowed are {allowed}")
        return properties


def claims(options: KafkaOptions) -> Sequence[Claim]:
    """Claims on the topics by their templates, at each broker of the first ones. A topic with states has one writer:
    two would replace each other's states, and notices are no states."""
    topics = [(options.topic, False), (options.notice_topic or options.topic, False), (options.state_topic, True)]
    return [
        Claim(f"kafka {broker} {topic}", f"the state_topic {topic}", exclusive)
        for broker in dict.fromkeys(options.bootstrap_servers.split(","))
        for topic, exclusive in dict.fromkeys(topics)
        if topic is not None
    ]
