"""The file sink appends deltas as lines of JSON to a file, to standard output, or into a pipe. A record is stored when
its whole line is on the disk (``fsync: batch``) or with the operating system.

closed_parts   seals, compresses and removes closed parts, on a thread of its own
connection     checks the options before the bridge runs, and names the claims on the file; opens and locks the file,
               cuts a torn last line, closes parts, forces lines onto the disk
delivery       appends lines to a file or a pipe
lines          finds the last lines of a plain file, and the sequence number and the time in a line
options        declares the options of the sink
parts          decides when a part is closed, its name, and when it is removed
reader         makes the library's source of the options, for ``kubedelta verify``, ``tail`` and ``history build``
seals          writes and checks the seals of closed parts
sink           FileSink: a record becomes a line, and a batch is appended

A batch goes from ``sink`` (encoding, in the event loop) to ``delivery`` (writing, on the single thread of the sink),
which asks ``connection`` for the descriptor of the present file. Where the file was moved away, by logrotate for
instance, or is old or large enough, the lines go to a new one. Closed parts belong to ``closed_parts`` from then on,
and its failures never reach the deliveries; with ``rotation.seal`` it writes the ``seals``. The reader
is a source of the reader library, which knows the lines, the order and the compression of parts for the writer, too. It
locks the part that comes next for ``kubedelta verify``, which the sink respects for an hour.

Invariants, each with its test:

- A file holds whole lines only. A batch that cannot be written is taken back, and a line that a crash tore is cut off
  at the next start: its record was never acknowledged, and comes again. ``tests/sinks/file/test_delivery.py``
- A reader gets each line once and in order, whatever is closed, moved, compressed or removed meanwhile.
  ``tests/sinks/file/test_reading_for_tail.py``, ``tests/sinks/file/test_rotation.py``
- A sealed part that is changed, cut, or gone without retention is found. ``tests/sinks/file/test_seals.py``
"""

from collections.abc import Sequence

from bridge.model.formats.definitions import Definitions
from sinks.base import Channel, Claim, RecordReader, Sink, SinkType, WrongOption
from sinks.file.options import FileOptions


def _load() -> type[Sink]:
    from sinks.file.sink import FileSink

    return FileSink


def _load_reader() -> type[RecordReader]:
    from sinks.file.reader import FileReader

    return FileReader


def _examine(options: FileOptions) -> Sequence[WrongOption]:
    from sinks.file.connection import examine

    return examine(options)


def _claims(options: FileOptions) -> Sequence[Claim]:
    from sinks.file.connection import claims

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
    reader=_load_reader,
    examine=_examine,
    claims=_claims,
    channels=_channels,
)
