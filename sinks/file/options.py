"""What an operator may set for a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from pydantic import Field, field_validator

from sinks.base import EventOptions

STANDARD_OUTPUT = Path("-")


class Fsync(StrEnum):
    """When what was written is forced onto the disk."""

    BATCH = "batch"
    NEVER = "never"


class FileOptions(EventOptions):
    """One JSON object a line: CloudEvents in their structured form, or envelopes."""

    path: Path = Field(
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

    @field_validator("path")
    @classmethod
    def _names_a_file(cls, path: Path) -> Path:
        if not path.name:
            raise ValueError('a file is needed, or "-" for standard output')
        return path
