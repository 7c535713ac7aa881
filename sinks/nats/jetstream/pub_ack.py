"""The server's answer to a published message: a PubAck (ADR-2 of NATS), or a status in its place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from sinks.excerpt import Secrets, excerpt
from sinks.nats.jetstream.verdicts import STORE_FAILED, TOO_LARGE_FOR_THE_STORE, VERDICTS, JetStreamFault


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The stream has stored the message, or knows its id."""

    sequence: int
    """The number of the message in the stream."""
    duplicate: bool
    """The stream knows the id; ``sequence`` is the number of the first message with that id. The stream may have lost
    that message since, in a purge for instance, and stores none in its place."""


@dataclass(frozen=True, slots=True)
class MessageRejected:
    """The stream will never take this message."""

    reason: str
    answer: str = ""
    """An excerpt of the server's answer."""


@dataclass(frozen=True, slots=True)
class WrongLastMessage:
    """The number that the message names is not that of the stream's last message."""

    last: int | None = None
    """The number of the last message; None if the server does not say it."""


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """The stream does not take the message now."""

    reason: str
    no_stream: bool = False
    """No stream takes the subject: the stream was deleted, or JetStream is unavailable."""


Answer: TypeAlias = Acknowledged | MessageRejected | WrongLastMessage | PublishFailed


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _PubAck(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: _Error | None = None


_decode = msgspec.json.Decoder(_PubAck).decode

_LAST = re.compile(r"wrong last sequence: ([0-9]{1,20})")
_HINTS = {
    10060: "another stream takes this subject; see stream and subject",
    10076: "JetStream is not enabled for this account",
    10077: "the stream is full",
    10109: "the stream is sealed",
}
STREAM_MISSING = "no stream takes this subject; see stream, subject and create_stream"


def read_answer(headers: Mapping[str, str] | None, payload: bytes) -> Answer:
    """``headers`` and ``payload`` of the server's answer. Never raises: an unreadable answer is a PublishFailed."""
    if headers and not payload:
        status = headers.get("Status")
        if status == "503":
            return PublishFailed(STREAM_MISSING, no_stream=True)
        return PublishFailed(f"the server answers with status {status}")
    try:
        ack = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return PublishFailed("the server's answer is no acknowledgement of JetStream")
    if ack.error is None:
        if not ack.seq:
            return PublishFailed("the server's answer is no acknowledgement of JetStream")
        return Acknowledged(ack.seq, ack.duplicate)
    number, description = ack.error.err_code, ack.error.description
    verdict = VERDICTS.get(number)
    if verdict is not None and verdict.fault is JetStreamFault.FENCE:
        return WrongLastMessage(_last_in(description))
    if number == STORE_FAILED and description == TOO_LARGE_FOR_THE_STORE:
        return MessageRejected("larger than a message in the stream's store may be", excerpt(payload, Secrets(())))
    if verdict is not None and verdict.fault is JetStreamFault.RECORD:
        return MessageRejected(verdict.reason, excerpt(payload, Secrets(())))
    hint = f" ({_HINTS[number]})" if number in _HINTS else ""
    return PublishFailed(f"the server answers: {description}{hint}")


def _last_in(description: str) -> int | None:
    found = _LAST.fullmatch(description)
    return int(found[1]) if found else None
