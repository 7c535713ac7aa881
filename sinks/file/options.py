"""The options of a file sink."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from config.values import Between, Count, Duration, Matching, Size
from sinks.options import EventOptions

STANDARD_OUTPUT = Path("-")
_NAMED = r"(?!(?:\.?/+)*\.?$)[^\x00]+"
"""A path of more than dots and slashes."""
_SMALLEST_PART = 4096
_MIB = 1024 * 1024


class Fsync(StrEnum):
    """When written lines are forced onto the disk."""

    BATCH = "batch"
    NEVER = "never"


class PartCompression(StrEnum):
    ZSTD = "zstd"
    NONE = "none"


class Rotation(BaseModel):
    """When the file is closed as a part and begun anew."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    bytes: Annotated[Size, Between(_SMALLEST_PART)] = Field(
        default=Size(128 * _MIB),
        description="The file is closed before it would become larger than this (Kafka's segment.bytes). A single batch"
        " that is larger is written whole.",
    )
    age: Duration = Field(
        default=Duration(0),
        description="The file is closed this long after its first line, also while no line comes (Kafka's segment.ms);"
        " 0 sets no bound. An empty file is not closed.",
        examples=["1h"],
    )
    compression: PartCompression = Field(
        default=PartCompression.ZSTD,
        description="zstd: closed parts are compressed in the background, to about a tenth. none: they stay as they"
        " are.",
    )
    compression_level: Count = Field(
        default=3,
        ge=1,
        le=19,
        description="Of zstd: 1 is the fastest, 19 the smallest.",
    )


class FileOptions(EventOptions):
    """A JSON object per line: a CloudEvent in the structured form, an envelope, a row, or an object."""

    path: Annotated[Path, Matching(_NAMED, 'a file is needed, or "-" for standard output')] = Field(
        description='The file to append to; "-" is standard output. Its folder must exist. It may also be a named pipe'
        " or a device. After the file was moved away (logrotate), the sink begins a new file.",
        examples=["./deltas.ndjson"],
    )
    fsync: Fsync = Field(
        default=Fsync.BATCH,
        description="batch: a batch counts as stored when the disk has it. It costs an fdatasync for each batch, about"
        " a millisecond, and survives a power cut. never: a batch counts as stored when the operating system has it,"
        " which survives a crash of the bridge alone. The option has no effect on pipes and devices.",
    )
    rotation: Rotation | None = Field(
        default=None,
        description="The sink closes the file by its size and age. A closed part has the time of its end and its first"
        " and last sequence number behind the name of the file, and sorts by them. Without rotation, the file grows"
        " until something moves it away.",
    )
