"""What the server's answer to a message means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from sinks.excerpt import Secrets, excerpt


@dataclass(frozen=True, slots=True)
class Stored:
    sequence: int
    """Of the message in the stream."""
    duplicate: bool
    """The stream knows the id, and names the message that had it first. Whether it still has that message is another
    question: after a purge it has not, and stores nothing."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The stream will never take this message."""

    reason: str
    answer: str = ""
    """What it said, fit to be kept."""


@dataclass(frozen=True, slots=True)
class OutOfChain:
    """Its predecessor is not the last message of the stream."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream does not take it now."""

    reason: str
    no_stream: bool = False
    """No stream takes the subject: it was deleted, or JetStream is away."""


Answer: TypeAlias = Stored | Refused | OutOfChain | Failed


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

# Numbers from the server's own list of errors (server/errors.json).
_WRONG_LAST_MSG_ID = 10070
_REFUSED = {10054: "larger than the stream's max_msg_size", 10097: "its headers are larger than the server takes"}
_HINTS = {
    10060: "another stream takes this subject; see stream and subject",
    10076: "JetStream is not enabled for this account",
    10077: "the stream is full",
    10109: "the stream is sealed",
}
STREAM_MISSING = "no stream takes this subject; see stream, subject and create_stream"


def answer(headers: Mapping[str, str] | None, payload: bytes) -> Answer:
    """Reads one PubAck (ADR-2 of NATS), or the status that stands in its place."""
    if headers and not payload:
        status = headers.get("Status")
        if status == "503":
            return Failed(STREAM_MISSING, no_stream=True)
        return Failed(f"the server answers with status {status}")
    try:
        ack = _decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Failed("the server's answer is no acknowledgement of JetStream")
    if ack.error is None:
        if not ack.seq:
            return Failed("the server's answer is no acknowledgement of JetStream")
        return Stored(ack.seq, ack.duplicate)
    number = ack.error.err_code
    if number == _WRONG_LAST_MSG_ID:
        return OutOfChain()
    if number in _REFUSED:
        return Refused(_REFUSED[number], excerpt(payload, Secrets(())))
    hint = f" ({_HINTS[number]})" if number in _HINTS else ""
    return Failed(f"the server answers: {ack.error.description}{hint}")
