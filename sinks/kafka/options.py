"""The options of a Kafka sink."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from bridge.model.primitives.addresses import is_loopback
from bridge.model.primitives.shard import Shard, ShardBy
from config.rules import AnyOf, Contains, Given, Is, Not, Rule
from config.values import Between, Duration, Flag, Matching, Size
from sinks.errors import WrongOption
from sinks.kafka.option_sections import AUTHENTICATION_RULES, CreateTopics, Extensions, TokenEndpointOptions
from sinks.kafka.option_types import (
    KEYED_PARTITIONERS,
    Brokers,
    Compression,
    Properties,
    PropertyFiles,
    RecordKey,
    SaslMechanism,
    SecurityProtocol,
    TopicName,
    TopicTemplate,
    WhenTooLarge,
)
from sinks.kafka.transactions.options import PROGRESS_RULE, TransactionOptions
from sinks.options import NAMES_NEED_ORDER, OBJECTS_ALONE, EventOptions
from sinks.state import state_rules

_NOTICES_APART = AnyOf(
    Given("notice_topic"),
    Contains("topic", "{resource}", default=True),
    *(Contains("topic", name) for name in ("{kind}", "{group}", "{version}")),
)
_ARGUMENT = Matching(r"[^\x00]*", "an argument of a program has no NUL")


class KafkaOptions(TransactionOptions):
    """A record for each delta: the object is the key, its JSON the value, the CloudEvents attributes the headers."""

    bootstrap_servers: Brokers = Field(
        description="The first brokers to ask, host:port, separated by commas.",
        examples=["127.0.0.1:9092"],
    )
    topic: TopicTemplate = Field(
        default="k8s.{resource}",
        description="The topic of records. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace};"
        " characters that Kafka forbids become _. {resource} is the plural; the core group is called"
        " core. Notices go to notice_topic. All records of an object must be in the same topic, so there"
        " is no {name}.",
    )
    notice_topic: TopicName | None = Field(
        default=None,
        description="The topic of notices (gaps, the edges of a snapshot). By default the topic above, with notice as"
        " the {resource}. In formats other than cloudevents, no record of an object may go to this topic.",
        examples=["k8s.notice"],
    )
    state_topic: TopicTemplate | None = Field(
        default=None,
        description="A compacted topic with the newest record of each object, beside the history, in the same form;"
        " a deleted object has no value. Placeholders as in topic. A record is settled when both topics"
        " have it. The topic must have cleanup.policy compact, and no other records. Set it with a new"
        " sink: a sink that has begun writes only objects that change from then on.",
        examples=["k8s-state.{resource}"],
    )
    create_topics: CreateTopics | None = Field(
        default=None,
        description="Create missing topics, a state_topic as a compacted topic. Off because the owner of a topic"
        " should decide on its partitions and its retention. Brokers with auto.create.topics.enable"
        " create others as they like, but none that must be compacted.",
        examples=[{"partitions": 12, "replication_factor": 3}],
    )
    key: RecordKey = Field(
        default=RecordKey.OBJECT,
        description="The key of records, which decides on their partition and on compaction. object: cluster,"
        " group, resource, namespace and name. uid: an object that is created again under its name is"
        " another one. namespace: all records of a namespace are in order; not for compacted topics,"
        " which would keep only the last of them. Change it with a new topic only.",
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
        description="Largest record and largest batch, before compression. Keep the limit below max.message.bytes of"
        " the topics; their default of 1048588 leaves room for headers. See too_large.",
    )
    too_large: WhenTooLarge = Field(
        default=WhenTooLarge.REJECT,
        description="For a record above max_message_bytes, or one that brokers refuse for its size. reject: a dead"
        " letter. trim: the record is sent without what include adds, then without annotations, without"
        " status, at last as a bare object, until it fits; the header ce_trimmed lists what it lacks."
        " compress: only the compressed record counts (up to 32MiB before compression).",
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
    token_command: tuple[Annotated[str, _ARGUMENT], ...] | None = Field(
        default=None,
        min_length=1,
        description="For OAUTHBEARER: a program and its arguments, run without a shell. It prints a JSON object"
        " with token (or access_token), expires_at (RFC 3339, or seconds since 1970) or expires_in"
        " (seconds), and if needed principal. It runs again after four fifths of the token's lifetime."
        " Its standard error is logged at level debug only.",
        examples=[["/opt/msk-token", "--region", "eu-central-1"]],
    )
    token_timeout: Annotated[Duration, Between(0.1, 300)] = Field(
        default=Duration(30), description="The time after which token_command is killed."
    )
    oauth2: TokenEndpointOptions | None = Field(
        default=None,
        description="For OAUTHBEARER: access tokens by the client credentials grant, which librdkafka requests and"
        " renews.",
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
    properties: Properties = Field(
        default={},
        description="Further settings of librdkafka (see its CONFIGURATION.md). Settings that have an option of their"
        " own, or would break a guarantee of the bridge, are refused.",
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
        *AUTHENTICATION_RULES,
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
        PROGRESS_RULE,
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
