"""The options of a NATS sink. ``claims`` names the stream and the bucket."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from bridge.model.primitives.network import is_loopback
from bridge.model.primitives.shard import Shard, ShardBy
from config.rules import AnyOf, Condition, Contains, Given, Is, NeededByDefaults, Not, Rule, needs, together
from config.values import HOST, PORT, Between, CaFile, CertFile, Count, Duration, Flag, KeyFile, Matching, Section, Size
from sinks.base import Claim
from sinks.options import NAMES_NEED_ORDER, OBJECTS_ALONE, EventOptions
from sinks.receipt import WrongOption
from sinks.state import state_rules
from sinks.template import check_template, template_pattern

_DEFAULT_PORT = 4222
_PART = r"[^\x00-\x20\x7f.*>{}]"


def _why_no_server(url: str) -> str:
    if "@" in url:
        return "no user and password in the URL: set user and password_file, or one of the other *_file"
    return "a server is named like nats://nats.shop:4222, or tls://… where it must be TLS"


def _why_no_subject(text: str) -> str:
    check_template(text)
    return f"{text!r} is no subject: it has a space, a wildcard, or an empty part between two dots"


def _dotted(part: str) -> str:
    return rf"{part}(?:\.{part})*"


Server: TypeAlias = Annotated[str, Matching(rf"(?:nats|tls)://{HOST}(?::{PORT})?/?", _why_no_server)]
Stream: TypeAlias = Annotated[
    str,
    Matching(
        r"[^\x00-\x20\x7f.*>/\\]+",
        lambda name: f"{name!r} is no name for a stream: no spaces, and none of . * > / \\",
        longest=255,
    ),
]
Subject: TypeAlias = Annotated[str, Matching(_dotted(template_pattern(_PART)), _why_no_subject)]


def _no_limit(size: Any) -> Any:
    return None if size == -1 else size


class CreateStream(Section):
    """How the sink creates a missing stream. An existing stream is not changed."""

    replicas: Count = Field(
        default=1, ge=1, le=5, description="Servers that store the stream. 3 survive the loss of a server."
    )
    max_age: Duration = Field(default=Duration(0), description="How long the stream keeps a message; 0 for ever.")
    max_bytes: Annotated[Size | None, BeforeValidator(_no_limit, json_schema_input_type=Size | Literal[-1] | None)] = (
        Field(
            default=None,
            description="Most bytes of the stream; null or -1 for no limit. A full stream refuses new messages.",
            examples=["10GiB"],
        )
    )
    duplicate_window: Annotated[Duration, Between(0.1)] = Field(
        default=Duration(600),
        description="How long the server drops messages with known ids: longer than any outage that should leave no "
        "duplicates.",
    )


_CREDENTIALS: tuple[Condition, ...] = (
    Given("credentials_file"),
    Given("nkey_seed_file"),
    AnyOf(Given("user"), Given("password_file")),
    Given("token_file"),
)
_SINGLE_CREDENTIALS = "set one of credentials_file, nkey_seed_file, user with password_file, and token_file"


class DeliveryMode(StrEnum):
    """What keeps the messages."""

    JETSTREAM = "jetstream"
    CORE = "core"


BucketName: TypeAlias = Annotated[
    str, Matching("[A-Za-z0-9_-]+", "a bucket's name has letters, digits, '-' and '_'", longest=252)
]
_CORE = Is("mode", DeliveryMode.CORE.value)
_SHARED = "the bridge of each shard writes into the stream: set sole_writer to false"
_NO_STREAM = "mode core has no stream: leave out stream, state, create_stream and sole_writer"


class NatsOptions(EventOptions):
    """A message for each record: the object as payload, the CloudEvents attributes as headers (binary form)."""

    servers: tuple[Server, ...] = Field(
        min_length=1,
        description="Servers to connect to. The sink learns the others of their cluster. With ca_file or cert_file "
        "the connection is TLS.",
        examples=[["nats://127.0.0.1:4222"]],
    )
    mode: DeliveryMode = Field(
        default=DeliveryMode.JETSTREAM,
        description="jetstream: a stream stores every message. core: the server hands messages to present subscribers "
        "and keeps none, so at most once; the account needs permission to publish to inbox_prefix.",
    )
    stream: Annotated[Stream | None, NeededByDefaults()] = Field(
        default=None,
        description="The JetStream stream, which must take the subjects below. Required, except with mode: core.",
        examples=["K8S"],
    )
    subject: Subject = Field(
        default="k8s.{cluster}.{group}.{resource}.{namespace}.{name}",
        description="The subject of messages. Placeholders: {cluster} {group} {version} {resource} {kind} "
        "{namespace} {name}. In a value, a dot becomes _, and other characters except letters, digits, - and : "
        "become =XX. The core group is called core; the namespace of a cluster-scoped object is _. Notices have "
        "notice as their {resource}.",
    )
    sole_writer: Flag = Field(
        default=True,
        description="Only this sink writes into the stream. Then whole batches are in flight at once, and with an "
        "election a former leader is refused. false, for a shared stream: messages of an object wait for each "
        "other.",
    )
    state: BucketName | None = Field(
        default=None,
        description="A JetStream key-value bucket with the newest message of each object, beside the stream "
        "(docs/sinks/state.md). It has no other writer. Set it with a new sink.",
        examples=["k8s-state"],
    )
    create_stream: CreateStream | None = Field(
        default=None,
        description="Create a missing stream, for the subjects above, and a missing bucket, with the same replicas "
        "and max_bytes. Off because the owner of a stream should decide on its retention.",
        examples=[{"replicas": 3, "max_age": "7d"}],
    )
    ack_timeout: Annotated[Duration, Between(0.001, 300)] = Field(
        default=Duration(10),
        description="After this time without an acknowledgement, the sink closes the connection and sends the "
        "messages in flight again.",
    )
    connect_timeout: Annotated[Duration, Between(0.001, 60)] = Field(
        default=Duration(5), description="Timeout for a connection."
    )
    credentials_file: Path | None = Field(
        default=None,
        description="A file with user credentials (.creds: a JWT and its seed), which is read again for every "
        "connection.",
        examples=["/run/secrets/user.creds"],
    )
    nkey_seed_file: Path | None = Field(
        default=None, description="A file with the seed of an NKey user.", examples=["/run/secrets/user.nk"]
    )
    user: str | None = Field(default=None, description="The user, with password_file.", examples=["kubedelta"])
    password_file: Path | None = Field(
        default=None, description="A file with the password of user.", examples=["/run/secrets/password"]
    )
    token_file: Path | None = Field(default=None, description="A file with a token.", examples=["/run/secrets/token"])
    ca_file: CaFile = None
    cert_file: CertFile = None
    key_file: KeyFile = None
    inbox_prefix: Annotated[str, Matching(_dotted(f"{_PART}+"), _why_no_subject)] = Field(
        default="_INBOX",
        description="Prefix of the subjects of acknowledgements, for accounts without permission for _INBOX.>.",
    )

    rules = (
        *EventOptions.rules,
        Rule(Is("mode", DeliveryMode.JETSTREAM.value, default=True), Given("stream"), "mode jetstream needs a stream"),
        Rule(
            _CORE,
            Not(AnyOf(Given("stream"), Given("state"), Given("create_stream"), Is("sole_writer", False))),
            _NO_STREAM,
        ),
        *(
            Rule(one, Not(AnyOf(*_CREDENTIALS[:at], *_CREDENTIALS[at + 1 :])), _SINGLE_CREDENTIALS)
            for at, one in enumerate(_CREDENTIALS)
        ),
        *state_rules("state"),
        *together("user", "password_file"),
        needs("key_file", "cert_file"),
        Rule(
            Is("format", *OBJECTS_ALONE),
            AnyOf(
                Contains("subject", "{resource}", default=True),
                *(Contains("subject", name) for name in ("{kind}", "{group}", "{version}", "{name}")),
            ),
            "formats other than cloudevents need one of {resource} {kind} {group} {version} {name} in subject: readers"
            " of objects stop at a notice, so notices need another subject",
        ),
    )

    @property
    def stream_name(self) -> str:
        """Empty with ``mode: core``."""
        return self.stream or ""

    @property
    def state_stream(self) -> str:
        """The stream of the bucket; empty without one."""
        return "" if self.state is None else f"KV_{self.state}"

    @property
    def fences(self) -> bool:
        """With an election, it rejects a former leader."""
        return self.sole_writer and self.mode is DeliveryMode.JETSTREAM

    def against_shards(self, shard: Shard) -> Sequence[WrongOption]:
        found = [WrongOption("sole_writer", _SHARED)] if self.fences else []
        if self.state is not None and shard.by is ShardBy.UID:
            found.append(WrongOption("state", NAMES_NEED_ORDER))
        return [*super().against_shards(shard), *found]

    def caution(self) -> str | None:
        if self.mode is DeliveryMode.JETSTREAM:
            return None
        return "mode is core: at most once. The server keeps no messages: whoever is away or slow misses them"

    def clear_text(self) -> str | None:
        hosts = [parts.hostname or "" for server in self.servers if (parts := urlsplit(server)).scheme != "tls"]
        sent = self.password_file or self.token_file  # A credentials file and an NKey only sign: they are never sent.
        if sent is None or self.ca_file or self.cert_file or all(is_loopback(host) for host in hosts):
            return None
        secret = "password" if self.password_file else "token"
        return f"servers are nats://: if they do not ask for TLS, anybody on the way can read the {secret}; use tls://"


def claims(options: NatsOptions) -> Sequence[Claim]:
    """Claims on stream and bucket for each server: two sinks may name different servers of the same cluster."""
    if options.stream is None:
        return []
    streams = [(options.stream, f"the stream {options.stream}, with sole_writer", options.sole_writer)]
    if options.state is not None:
        streams.append((options.state_stream, f"the bucket {options.state}", True))
    return [
        Claim(f"nats {address.hostname}:{address.port or _DEFAULT_PORT} {stream}", description, exclusive)
        for address in map(urlsplit, options.servers)
        for stream, description, exclusive in streams
    ]
