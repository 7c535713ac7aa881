"""What an operator may set for NATS."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from config.rules import AnyOf, Condition, Contains, Given, Is, Not, Rule, needs, together
from config.values import HOST, PORT, Between, Count, Duration, Flag, Matching, Size
from sinks.base import EventOptions, Format
from sinks.template import check_template, template_pattern
from sinks.tls import is_loopback

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


class CreateStream(BaseModel):
    """How the stream is made where it does not exist. One that exists is left as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    replicas: Count = Field(default=1, ge=1, le=5, description="Servers that keep it. 3 survive the loss of one.")
    max_age: Duration = Field(default=Duration(0), description="How long a message is kept; 0 for ever.")
    max_bytes: Annotated[Size | None, BeforeValidator(_no_limit, json_schema_input_type=Size | Literal[-1] | None)] = (
        Field(
            default=None,
            description="Bytes that the stream may have; null or -1 for no limit. Full, it refuses new messages.",
            examples=["10GiB"],
        )
    )
    duplicate_window: Annotated[Duration, Between(0.1)] = Field(
        default=Duration(600),
        description="Time for which the server knows ids, and drops what comes twice. Longer than an outage that"
        " should leave no duplicates; ids are kept in the server's memory.",
    )


_WAYS: tuple[Condition, ...] = (
    Given("credentials_file"),
    Given("nkey_seed_file"),
    AnyOf(Given("user"), Given("password_file")),
    Given("token_file"),
)
_ONE_WAY = "one of credentials_file, nkey_seed_file, user with password_file, and token_file"


class NatsOptions(EventOptions):
    """One message for each record: the object as payload, the CloudEvents attributes as headers (binary form)."""

    servers: tuple[Server, ...] = Field(
        min_length=1,
        description="Where to connect, any of these; the others of their cluster are learned from them.",
        examples=[["nats://127.0.0.1:4222"]],
    )
    stream: Stream = Field(
        description="The JetStream stream that stores the messages. It must take the subjects below.", examples=["K8S"]
    )
    subject: Subject = Field(
        default="k8s.{cluster}.{group}.{resource}.{namespace}.{name}",
        description="Where to publish. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace} {name}."
        " A dot in a value becomes _, and every other character outside of letters, digits, - and : becomes =XX. The"
        " core group is called core; the namespace of a cluster-scoped object is _. Notices (gaps, the"
        " edges of a snapshot) have resource notice.",
    )
    sole_writer: Flag = Field(
        default=True,
        description="Nothing but this sink writes into the stream. Then every message names its predecessor, the server"
        " refuses to store one without the other, and whole batches are under way at once. Set it to false for a shared"
        " stream: messages about one object then wait for each other.",
    )
    create_stream: CreateStream | None = Field(
        default=None,
        description="Make the stream where it does not exist, for the subjects above. Off because how long messages are"
        " kept is for its owner to say.",
        examples=[{"replicas": 3, "max_age": "7d"}],
    )
    ack_timeout: Annotated[Duration, Between(0.001, 300)] = Field(
        default=Duration(10),
        description="Time without any acknowledgement before the connection is given up and what was not"
        " acknowledged is sent again. A new leader of a stream is elected in well under 10.",
    )
    connect_timeout: Annotated[Duration, Between(0.001, 60)] = Field(
        default=Duration(5), description="Time for making a connection."
    )
    credentials_file: Path | None = Field(
        default=None,
        description="User credentials (.creds: a JWT and its seed). Read again for every connection.",
        examples=["/run/secrets/user.creds"],
    )
    nkey_seed_file: Path | None = Field(
        default=None, description="The seed of an NKey user.", examples=["/run/secrets/user.nk"]
    )
    user: str | None = Field(default=None, description="A user with a password.", examples=["kubedelta"])
    password_file: Path | None = Field(
        default=None, description="That user's password.", examples=["/run/secrets/password"]
    )
    token_file: Path | None = Field(default=None, description="A token.", examples=["/run/secrets/token"])
    ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities to trust in place of the system's. With it, or with"
        " cert_file, the connection is TLS.",
        examples=["/run/secrets/ca.crt"],
    )
    cert_file: Path | None = Field(
        default=None, description="Certificate (PEM) to show to the server.", examples=["/run/secrets/tls.crt"]
    )
    key_file: Path | None = Field(
        default=None,
        description="Its private key (PEM), where cert_file does not hold it.",
        examples=["/run/secrets/tls.key"],
    )
    inbox_prefix: Annotated[str, Matching(_dotted(f"{_PART}+"), _why_no_subject)] = Field(
        default="_INBOX",
        description="Where acknowledgements come back, for accounts whose permissions do not include _INBOX.>.",
    )

    rules = (
        *EventOptions.rules,
        *(Rule(one, Not(AnyOf(*_WAYS[:place], *_WAYS[place + 1 :])), _ONE_WAY) for place, one in enumerate(_WAYS)),
        *together("user", "password_file"),
        needs("key_file", "cert_file"),
        Rule(
            Is("format", Format.ENVELOPE.value),
            AnyOf(
                Contains("subject", "{resource}", default=True),
                *(Contains("subject", name) for name in ("{kind}", "{group}", "{version}", "{name}")),
            ),
            "format envelope needs one of {resource} {kind} {group} {version} {name} in subject: who reads envelopes"
            " stops at a notice, so it has another subject",
        ),
    )

    def clear_text(self) -> str | None:
        hosts = [parts.hostname or "" for server in self.servers if (parts := urlsplit(server)).scheme != "tls"]
        sent = self.password_file or self.token_file  # A credentials file and an NKey sign, and are never sent.
        if sent is None or self.ca_file or self.cert_file or all(is_loopback(host) for host in hosts):
            return None
        what = "password" if self.password_file else "token"
        return f"servers are nats://: where they do not ask for TLS, anybody on the way can read the {what}; use tls://"
