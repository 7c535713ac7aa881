"""The options of a file sink."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from config.rules import Given, Is, Rule, Ruled
from config.values import Between, Count, Duration, Matching, Positive, Size
from sinks.options import EventOptions

STANDARD_OUTPUT = Path("-")
_NAMED = r"(?!(?:\.?/)*\.?$)[^\x00]+"
"""A path of more than dots and slashes."""
_SMALLEST_PART = 4096
_MIB = 1024 * 1024


class Fsync(StrEnum):
    """When written lines are forced onto the disk."""

    BATCH = "batch"
    INTERVAL = "interval"
    NEVER = "never"


class PartCompression(StrEnum):
    ZSTD = "zstd"
    NONE = "none"


class Rotation(Ruled):
    """When the file is closed as a part and begun anew."""

    bytes: Annotated[Size, Between(_SMALLEST_PART)] = Field(
        default=Size(128 * _MIB),
        description="The file is closed before it would become larger (Kafka's segment.bytes). A larger batch is "
        "written whole.",
    )
    age: Duration = Field(
        default=Duration(0),
        description="The file is closed this long after its first line (Kafka's segment.ms); 0 sets no bound.",
        examples=["1h"],
    )
    compression: PartCompression = Field(
        default=PartCompression.ZSTD,
        description="zstd: closed parts are compressed in the background. none: they stay as they are.",
    )
    compression_level: Count = Field(
        default=3,
        ge=1,
        le=19,
        description="Of zstd: 1 is the fastest, 19 the smallest.",
    )
    retain_parts: Positive | None = Field(
        default=None,
        description="Most closed parts: beyond that, beyond retain_bytes and after retain_age, the oldest are "
        "removed, but for parts that kubedelta verify has yet to read, and files of others.",
        examples=[30],
    )
    retain_bytes: Annotated[Size, Between(_SMALLEST_PART)] | None = Field(
        default=None,
        description="Most bytes of all closed parts together (Kafka's retention.bytes).",
        examples=["20GiB"],
    )
    retain_age: Annotated[Duration, Between(1)] | None = Field(
        default=None,
        description="A part is removed this long after it was closed (Kafka's retention.ms). With snapshot.every "
        "below it, the parts that are left lead to the whole state.",
        examples=["30d"],
    )

    seal: bool = Field(
        default=False,
        description="A line in <path>.seals for each closed part, with its SHA-256 and that of the line before: by "
        "these, kubedelta verify --seals finds parts that were changed or taken away.",
    )
    seal_key_file: Path | None = Field(
        default=None,
        description="A private key (whsk_ and base64) that signs each seal. Whoever has it can make seals; verify "
        "takes the public key alone.",
        examples=["/etc/kubedelta/seal/key"],
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(Given("seal_key_file"), Is("seal", True), "seal_key_file has no effect without seal: true"),
    )


class FileOptions(EventOptions):
    """A JSON object per line: a CloudEvent in the structured form, an envelope, a row, or an object."""

    path: Annotated[Path, Matching(_NAMED, 'a file is needed, or "-" for standard output')] = Field(
        description='The file to append to, whose folder must exist, or a named pipe, a device, or "-" for standard '
        "output. After the file was moved away (logrotate), the sink begins a new one.",
        examples=["./deltas.ndjson"],
    )
    fsync: Fsync = Field(
        default=Fsync.BATCH,
        description="When a batch counts as stored. batch: when the disk has it. interval: the same, with "
        "fsync_interval between two fsyncs. never: when the operating system has it, which survives no power cut. "
        "No effect on pipes and devices.",
    )
    fsync_interval: Annotated[Duration, Between(0.01, 10)] | None = Field(
        default=None,
        description="With fsync interval: the least time between two fsyncs, by default 1s. A batch of 1,000 records "
        "does not wait for it.",
        examples=["500ms"],
    )
    rotation: Rotation | None = Field(
        default=None,
        description="The sink closes the file by its size and age, as a part with a name of its own. Without it, the "
        "file grows until something moves it away.",
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        *EventOptions.rules,
        Rule(
            Given("fsync_interval"),
            Is("fsync", Fsync.INTERVAL.value),
            "fsync_interval has no effect without fsync: interval",
        ),
    )
