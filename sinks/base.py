"""The promise every sink keeps. A sink only sends: waiting, retrying, counting and logging are the bridge's work."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.envelope import Envelopes
from bridge.model.record import Gap, Record, later_gap
from bridge.model.resource import Resource
from bridge.model.versions.stored_version import SinkReader
from config.rules import Is, Rule, check
from config.values import Flag

Form = TypeVar("Form")


class SinkOptions(BaseModel):
    """What an operator may set for one sink. Each sink has its own subclass; unknown fields are errors.

    Every field says in its description what it is, in which unit, and why its default is what it is: the reference
    and the JSON Schema are made of them.
    """

    # What was written by mistake may be a secret, and errors are logged.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    rules: ClassVar[tuple[Rule, ...]] = ()
    """What must be so between these options. A subclass adds its own to those of its base."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        check(self, self.rules)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(found)["allOf"] = [rule.as_json_schema() for rule in cls.rules]
        return found

    def clear_text(self) -> str | None:
        """Which credentials would cross a network unencrypted with these options, in words for the operator; None
        where none would. ``run`` logs it as a warning, ``check`` prints it."""
        return None


class Format(StrEnum):
    """In which form an object's change leaves."""

    CLOUDEVENTS = "cloudevents"
    ENVELOPE = "envelope"


class EventOptions(SinkOptions):
    """For sinks that send the events of the bridge as they are: which form they have."""

    format: Format = Field(
        default=Format.CLOUDEVENTS,
        description="cloudevents: the object after the change as the data of a CloudEvent. envelope: the form of change"
        ' data capture, {"op","before","after","source","ts_ms"}, in the words of Debezium.',
    )
    before: Flag = Field(
        default=False,
        description="With format envelope: also send what an object was before the change, where that is known. Off"
        " because it doubles what is sent.",
    )
    patch: Flag = Field(
        default=False,
        description="With format envelope: add a JSON merge patch (RFC 7386) from before to after. Off because both"
        " states must be decoded for it.",
    )

    rules = tuple(
        Rule(
            Is(name, True),
            Is("format", Format.ENVELOPE.value),
            "before and patch are members of the envelope: set format: envelope, or leave them out",
        )
        for name in ("before", "patch")
    )

    def events(self, cluster: str) -> CloudEvents:
        """The encoder that these options ask for."""
        if self.format is Format.CLOUDEVENTS:
            return CloudEvents(cluster)
        return CloudEvents(cluster, Envelopes(cluster, before=self.before, patch=self.patch))


class SinkUnavailable(Exception):
    """The destination cannot be reached or cannot take anything now; it may later. The message tells the operator
    what to look at, without any secret."""


class WrongOption(SinkUnavailable):
    """An option is of no use as it is, or the file that it names. Met before anything runs (``SinkType.examine``), it
    is a mistake in the configuration; met later, it is waited for like any other trouble: the file may be renewed."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        """Its path below the sink, such as ``ca_file`` or ``properties.linger.ms``."""
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Claim:
    """What a sink writes to, where several sinks may meet."""

    thing: str
    """The same for two sinks that meet."""
    words: str
    """What that is, for the operator."""
    alone: bool
    """Nobody else may write to it."""


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Why records of a batch are still to be delivered."""

    reason: str
    after: float | None = None
    """Seconds, where the destination said how long (Retry-After)."""
    whole: bool = False
    """It takes nothing at all now, whichever record it is offered: it cannot be reached, it refuses the credentials,
    it is busy. Then the bridge offers nothing else meanwhile."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch. A record that is in neither list is stored by the destination, durably by its own
    standard (Kafka: acks=all; JetStream: PubAck; HTTP: 2xx; file: flushed to the operating system).

    Of the records with one ordering key first come those that are stored, then at most one that is rejected, then those
    that are pending. So nothing overtakes a pending record, and nothing that follows a rejected one was sent: the
    bridge may have to park it. ``receipt_of`` sees to that.
    """

    pending: Sequence[int] = ()
    """Places in the batch, ascending, of records that are not known to be stored."""
    trouble: RetryLater | None = None
    """Set exactly when something is pending for another reason than a rejected record in front of it."""
    rejected: Mapping[int, str] = field(default_factory=dict)
    """Place in the batch → reason, for records that the destination will never take."""
    answers: Mapping[int, str] = field(default_factory=dict)
    """Of these, by place: the beginning of what the destination answered, where that says more than the reason; made by
    ``sinks.excerpt``. It is kept with the dead letter and stands in no log."""
    made: str = ""
    """What was missing at the destination and was made by the sink, empty, such as ``stream K8S``: if it had been there
    before, what it held is gone. The bridge tells the operator."""


ALL_STORED = Receipt()


def encode_each(batch: Sequence[Record], encode: Callable[[Record], Form]) -> tuple[dict[int, Form], dict[int, str]]:
    """The form in which each record leaves, and the reason for each that has none, both by place in the batch.
    ``encode`` raises ValueError for those. What follows such a record with its ordering key is in neither: it must
    not be sent."""
    forms: dict[int, Form] = {}
    rejected: dict[int, str] = {}
    held_up: set[tuple[str, str]] = set()
    for place, record in enumerate(batch):
        if held_up and record.ordering_key in held_up:
            continue
        try:
            forms[place] = encode(record)
        except ValueError as error:
            rejected[place] = str(error)
            held_up.add(record.ordering_key)
    return forms, rejected


def not_following(batch: Sequence[Record], places: Sequence[int], rejected: Collection[int]) -> list[int]:
    """Those of the places that no rejected record with the same ordering key is in front of."""
    if not rejected:
        return list(places)
    first: dict[tuple[str, str], int] = {}
    for place in sorted(rejected):
        first.setdefault(batch[place].ordering_key, place)
    return [place for place in places if first.get(batch[place].ordering_key, place) >= place]


def receipt_of(
    batch: Sequence[Record],
    *,
    pending: Collection[int] = (),
    trouble: RetryLater | None = None,
    rejected: Mapping[int, str] | None = None,
    answers: Mapping[int, str] | None = None,
) -> Receipt:
    """The receipt for a batch of which nothing was sent behind a rejected record with the same ordering key.

    What follows a pending or a rejected record of its key becomes pending: a rejection too, which will be told again
    when it is the turn of that record.
    """
    if not pending and not rejected:
        return ALL_STORED
    unsent, refused = set(pending), rejected or {}
    held_up: set[tuple[str, str]] = set()
    left: list[int] = []
    final: dict[int, str] = {}
    for place, record in enumerate(batch):
        key = record.ordering_key
        if key in held_up or place in unsent:
            left.append(place)
        elif place in refused:
            final[place] = refused[place]
        else:
            continue
        held_up.add(key)
    said = {place: answer for place, answer in (answers or {}).items() if answer and place in final}
    return Receipt(left, trouble if unsent else None, final, said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """For a sink that sends record by record, and would wait for each answer in turn. The bridge then calls ``deliver``
    for several lanes at once; all records of one object are in the same lane. An object that fails is tried again
    alone, after a while, and others go on."""

    concurrency: int
    """Most calls of ``deliver`` at once."""
    batch: int = 1
    """Most records in one call. With 1 each object has a lane of its own; above, ``concurrency`` lanes are shared by
    all objects, so that calls fill up."""


class Sink(Protocol):
    """One destination.

    ``open`` once, then ``deliver`` one batch at a time, in order; ``close`` once, also after a failed ``open``. All
    three run in the bridge's event loop and never block it. ``deliver`` raises only for bugs: what a destination or
    a network can do is in the Receipt. When ``deliver`` is cancelled, any part of the batch may have been stored.

    A sink whose type asks for ``lanes`` is called with the next batch of one lane while it still delivers batches of
    others; never twice at once for one lane, and a notice (what is no Delta) comes by itself, with nothing beside it.
    """

    def __init__(self, name: str, options: Any, *, cluster: str) -> None: ...

    async def open(self) -> None:
        """Get ready to deliver. Raises SinkUnavailable; the bridge tries again, later, on a new sink."""
        ...

    async def deliver(self, batch: Sequence[Record]) -> Receipt:
        """Send a batch (never empty, at most ``max_batch`` records) and wait for the destination's word on it."""
        ...

    async def check(self) -> str:
        """For ``kubedelta check``, on a sink that is not open: reach the destination and say in a few words what was
        found there. Sends no record. Raises SinkUnavailable."""
        ...

    async def close(self) -> None:
        """Release what ``open`` took, within a few seconds."""
        ...


@runtime_checkable
class ChecksPlaces(Protocol):
    """A sink that can tell, without sending a record, whether there is a place for records of a resource."""

    async def check_places(self, resources: Sequence[Resource]) -> Sequence[str]:
        """For ``kubedelta check``, on a sink that is not open: a sentence for each place that is missing and will not
        be made. Raises SinkUnavailable."""
        ...


@runtime_checkable
class Aware(Protocol):
    """A sink that knows more than the batch that it is given. The bridge sets both before ``open``."""

    memory: bytes
    """What it asks to be reminded of after a restart; empty at first. The bridge looks at it when all that it was given
    is stored (or a dead letter), and saves it together with that: what was given later is given again after a crash.
    A few kilobytes at most, and the same object until it changes. A sink that wants lanes may be reminded of what
    belongs to records that come again."""
    watched: Callable[[], Sequence[Resource] | None]
    """The resources that are watched; None until the API server has said what there is."""


NOBODY_KNOWS = b"gap/unknown"
"""In place of the newest gap, where what was saved of it cannot be read."""
_GAP = re.compile(rb"gap/(?:[0-9]+/[0-9]+|unknown)")


class NamesGaps:
    """For sinks with one stream, where a gap stands in its place: an ``Aware`` one that names it in later envelopes."""

    def __init__(self, events: CloudEvents) -> None:
        self._noting = events.note_gap
        self._newest = b""
        self.watched: Callable[[], Sequence[Resource] | None] = tuple

    @property
    def memory(self) -> bytes:
        return self._newest

    @memory.setter
    def memory(self, saved: bytes) -> None:
        known = saved if not saved or _GAP.fullmatch(saved) else NOBODY_KNOWS
        self._newest = known
        self._noting(known.decode())

    def note_gaps(self, batch: Sequence[Record], receipt: Receipt) -> Receipt:
        """What became of a batch, which a notice is alone in."""
        if isinstance(batch[-1], Gap) and not receipt.pending:
            self.memory = later_gap(self._newest.decode(), batch[-1].id).encode()
        return receipt


def no_lanes(_options: SinkOptions) -> None:
    """For a sink that takes batches."""


def no_mistakes(_options: SinkOptions) -> Sequence[WrongOption]:
    """For a sink whose options name neither files nor settings of others."""
    return ()


def no_claims(_options: SinkOptions) -> Sequence[Claim]:
    """For a sink that minds nobody beside it."""
    return ()


def mistakes_of(steps: Iterable[Callable[[], object]]) -> list[WrongOption]:
    """What each of these steps raises."""
    found = []
    for step in steps:
        try:
            step()
        except WrongOption as wrong:
            found.append(wrong)
    return found


@dataclass(frozen=True, slots=True)
class SinkType:
    """How the registry knows a sink; further packages offer theirs as entry points in ``kubedelta.sinks``."""

    name: str
    options: type[SinkOptions]
    load: Callable[[], type[Sink]]
    """Imports and returns the class. A client library is paid for by those who use it, not by ``kubedelta --help``:
    import it where this function does, and keep ``options`` free of it."""
    max_batch: int
    """Most records that are taken at once: in one ``deliver``, or to be distributed to the lanes."""
    summary: str
    """One line for ``kubedelta sinks``."""
    lanes: Callable[[Any], Lanes | None] = no_lanes
    """Whether a sink with these options wants lanes. None: it is given batches, one after another."""
    read_back: Callable[[], type[SinkReader]] | None = None
    """Imports and returns what reads the destination for ``kubedelta verify``; None where nothing can be read back."""
    examine: Callable[[Any], Sequence[WrongOption]] = no_mistakes
    """Before anything runs: what cannot work in options that are right by themselves, such as the files that they name.
    Asks no destination; may block for some time."""
    claims: Callable[[Any], Sequence[Claim]] = no_claims
    """What a sink with these options writes to, so that two that would disturb each other are refused."""


_LARGEST_SECRET = 1 << 20
"""Bytes: a chain of certificates has some thousand."""


def read_secret(path: Path, option: str) -> str:
    """The content of the file that this option names, without the newline at its end; never empty. Raises
    WrongOption."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_SECRET + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongOption(option, f"cannot read the secret file {path}: {_why(error)}") from error
    if len(content) > _LARGEST_SECRET:
        raise WrongOption(option, f"the secret file {path} is larger than {_LARGEST_SECRET >> 20}MiB")
    if not text.strip():
        raise WrongOption(option, f"the secret file {path} is empty")
    return text


def _why(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not text (UTF-8)"


class SecretFile:
    """A secret that may be renewed while the bridge runs, as Kubernetes does with mounted Secrets."""

    def __init__(self, path: Path, option: str) -> None:
        self._path = path
        self._option = option
        self._seen: tuple[int, int, int] | None = None
        self._content = ""

    def read(self) -> str:
        """What the file holds now. It is read again only when it was replaced or changed. Raises WrongOption."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise WrongOption(self._option, f"cannot read the secret file {self._path}: {_why(error)}") from error
        seen = (status.st_ino, status.st_mtime_ns, status.st_size)
        if seen != self._seen:
            self._content = read_secret(self._path, self._option)
            self._seen = seen
        return self._content
