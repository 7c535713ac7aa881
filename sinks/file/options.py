"""The options of a file sink."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field

from config.values import Matching
from sinks.options import EventOptions

STANDARD_OUTPUT = Path("-")
_NAMED = r"(?!(?:\.?/+)*\.?$)[^\x00]+"
"""A path of more than dots and slashes."""


class Fsync(StrEnum):
    """When written lines are forced onto the disk."""

    BATCH = "batch"
    NEVER = "never"


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
