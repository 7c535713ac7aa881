"""Deltas as lines of JSON in a file, on standard output, or into a pipe.

closed_parts   compresses and removes closed parts
connection     when written lines are forced onto the disk; the open file: lock, torn last line, rotation, reopening
               after logrotate
delivery       appends lines to a file or a pipe
examine        checks options before the bridge runs
follow         follows the file through its rotations
lines          sequence number and time in a line; lines of plain and compressed files, forward and backward
options        the options of the sink
parts          the age of the open file; names and order of closed parts; chooses the parts that are removed; keeps
               parts that are not read yet from being removed
readers        reads them for ``kubedelta verify``; reads them for ``kubedelta tail``
sink           a record as a line; FileSink, which joins them
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from bridge.model.versions.followed_record import RecordFollower
from bridge.model.versions.stored_version import SinkReader
from sinks.base import Channel, Claim, Sink, SinkType, WrongOption
from sinks.file.options import FileOptions


def _load() -> type[Sink]:
    from sinks.file.sink import FileSink

    return FileSink


def _load_read_back() -> type[SinkReader]:
    from sinks.file.readers import FileReadBack

    return FileReadBack


def _load_follow() -> type[RecordFollower]:
    from sinks.file.readers import FileFollower

    return FileFollower


def _examine(options: FileOptions) -> Sequence[WrongOption]:
    from sinks.file.examine import examine

    return examine(options)


def _claims(options: FileOptions) -> Sequence[Claim]:
    from sinks.file.examine import claims

    return claims(options)


def _channels(options: FileOptions, cluster: str, definitions: Definitions) -> Sequence[Channel]:
    from sinks.file.sink import channels

    return channels(options, cluster, definitions)


TYPE = SinkType(
    name="file",
    options=FileOptions,
    load=_load,
    max_batch=1000,
    summary="Lines of JSON (NDJSON) appended to a file, or written to standard output",
    read_back=_load_read_back,
    follow=_load_follow,
    examine=_examine,
    claims=_claims,
    channels=_channels,
)
