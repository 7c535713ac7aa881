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
    """A JSON object per line: a CloudEvent in the structured form, or an envelope."""

    path: Annotated[Path, Matching(_NAMED, 'a file is needed, or "-" for standard output')] = Field(
        description='The file to append to; "-" is standard output. Its folder must exist. A named pipe or a device is'
        " written to as it is. A file that is moved away (logrotate) is begun anew.",
        examples=["./deltas.ndjson"],
    )
    fsync: Fsync = Field(
        default=Fsync.BATCH,
        description="batch: a batch counts as stored when the disk has it, which costs one fdatasync a batch, about a"
        " millisecond, and survives a power cut. never: when the operating system has it, which survives a crash of the"
        " bridge alone. Pipes and devices have no disk and ignore it.",
    )
