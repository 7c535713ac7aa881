"""Deltas as lines of JSON in a file, on standard output, or into a pipe."""

from bridge.model.held import ReadBack
from sinks.base import Sink, SinkType
from sinks.file.options import FileOptions


def _load() -> type[Sink]:
    from sinks.file.sink import FileSink

    return FileSink


def _load_read_back() -> type[ReadBack]:
    from sinks.file.readback import FileReadBack

    return FileReadBack


TYPE = SinkType(
    name="file",
    options=FileOptions,
    load=_load,
    max_batch=1000,
    summary="Lines of JSON (NDJSON) appended to a file, or written to standard output",
    read_back=_load_read_back,
)
