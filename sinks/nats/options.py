"""What an operator may set for NATS."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sinks.base import EventOptions
from sinks.template import Template, check_template
from sinks.tls import is_loopback

_SUBJECT = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")
_STREAM = re.compile(r"[^\s.*>/\\]+")


def _server(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise ValueError("a server is named like nats://nats.shop:4222, or tls://… where it must be TLS")
    if parts.username is not None or parts.password is not None:
        raise ValueError("no user and password in the URL: set user and password_file, or one of the other *_file")
    return url


def _subject(text: str) -> str:
    check_template(text)
    if not _SUBJECT.fullmatch(Template(text, "c", escape=str).wildcard("x")):
        raise ValueError(f"{text!r} is no subject: it has a space, a wildcard, or an empty part between two dots")
    return text


def _stream(name: str) -> str:
    if not _STREAM.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a stream: no spaces, and none of . * > / \\")
    return name


class CreateStream(BaseModel):
    """How the stream is made where it does not exist. One that exists is left as it is."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    replicas: int = Field(default=1, ge=1, le=5, description="Servers that keep it. 3 survive the loss of one.")
    max_age: float = Field(default=0, ge=0, description="Seconds that a message is kept; 0 for ever.")
    max_bytes: int = Field(
        default=-1, ge=-1, description="Bytes that the stream may have; -1 for no limit. Full, it refuses new messages."
    )
    duplicate_window: float = Field(
        default=600,
        gt=0,
        description="Seconds for which the server knows ids, and drops what comes twice. Longer than an outage that"
        " should leave no duplicates; ids are kept in the server's memory.",
    )


class NatsOptions(EventOptions):
    """One message for each record: the object as payload, the CloudEvents attributes as headers (binary form)."""

    servers: tuple[Annotated[str, AfterValidator(_server)], ...] = Field(
        min_length=1,
        description="Where to connect, any of these; the others of their cluster are learned from them.",
        examples=[["nats://127.0.0.1:4222"]],
    )
    stream: Annotated[str, AfterValidator(_stream)] = Field(
        description="The JetStream stream that stores the messages. It must take the subjects below.", examples=["K8S"]
    )
    subject: Annotated[str, AfterValidator(_subject)] = Field(
        default="k8s.{cluster}.{group}.{resource}.{namespace}.{name}",
        description="Where to publish. Placeholders: {cluster} {group} {version} {resource} {kind} {namespace} {name}."
        " A dot in a value becomes _, and every other character outside of letters, digits, - and : becomes =XX. The"
        " core group is called core; the namespace of a cluster-scoped object is _. Notices (gaps, the"
        " edges of a snapshot) have resource notice.",
    )
    sole_writer: bool = Field(
        default=True,
        description="Nothing but this sink writes into the stream. Then every message names its predecessor, the server"
        " refuses to store one without the other, and whole batches are under way at once. Set it to false for a shared"
        " stream: messages about one object then wait for each other.",
    )
    create_stream: CreateStream | None = Field(
        default=None,
        description="Make the stream where it does not exist, for the subjects above. Off because how long messages are"
        " kept is for its owner to say.",
        examples=[{"replicas": 3, "max_age": 604800}],
    )
    ack_timeout: float = Field(
        default=10.0,
        gt=0,
        le=300,
        description="Seconds without any acknowledgement before the connection is given up and what was not"
        " acknowledged is sent again. A new leader of a stream is elected in well under 10.",
    )
    connect_timeout: float = Field(default=5.0, gt=0, le=60, description="Seconds for making a connection.")
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
    inbox_prefix: Annotated[str, AfterValidator(_subject)] = Field(
        default="_INBOX",
        description="Where acknowledgements come back, for accounts whose permissions do not include _INBOX.>.",
    )

    def clear_text(self) -> str | None:
        hosts = [parts.hostname or "" for server in self.servers if (parts := urlsplit(server)).scheme != "tls"]
        sent = self.password_file or self.token_file  # A credentials file and an NKey sign, and are never sent.
        if sent is None or self.ca_file or self.cert_file or all(is_loopback(host) for host in hosts):
            return None
        what = "password" if self.password_file else "token"
        return f"servers are nats://: where they do not ask for TLS, anybody on the way can read the {what}; use tls://"

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        ways = [self.credentials_file, self.nkey_seed_file, self.user or self.password_file, self.token_file]
        if sum(way is not None for way in ways) > 1:
            raise ValueError("one of credentials_file, nkey_seed_file, user with password_file, and token_file")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file belong together")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file is of no use without cert_file")
        return self
