"""``kubedelta history build``: reads a stream, and keeps its steps in a file.

Records and the position behind them are one transaction of the file, so the command can be ended at any moment, and
goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

import apsw
from kubedelta_reader import Event, NotAnEvent, Record
from kubedelta_reader.sources import Unavailable

from bridge.cli.arguments import UsageError, default_file, history_file
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.history import opened
from bridge.cli.progress import ProgressLine, progress
from bridge.cli.settings import load_settings
from bridge.cli.terminal import complain, plain, say, size
from bridge.history.points import in_words
from bridge.history.recorder import HistoryBounds, Recorder
from bridge.model.primitives.printable import counted
from sinks import registry
from sinks.base import CannotRead, ReadPurpose, RecordReader

_LOOK_EVERY = 0.25
"""Seconds between two looks for further records."""
_FILE = "file"


def build(source: str, path: Path | None, *, file: Path | None, follow: bool, keep: float, max_bytes: int) -> int:
    """``source``: the path of a file, or a sink of the configuration at ``path``. Without ``path``, a file that exists
    is meant before a sink of the default configuration. ``keep``: seconds."""
    target = history_file(file)
    foreign = 0
    try:
        name, reader = _reader(source, path)
        with progress() as line, Recorder(target, name, HistoryBounds(keep, max_bytes)) as recorder:
            foreign = asyncio.run(_build(reader, recorder, line, follow=follow))
    except CannotRead as error:
        raise CommandEnds(Exit.NO, f"{source}: {error}") from error
    except Unavailable as error:
        raise CommandEnds(Exit.UNAVAILABLE, f"{source}: {error}") from error
    except apsw.Error as error:
        raise CommandEnds(Exit.DAMAGED, f"{target}: {error}") from error
    if foreign:
        complain(f"{counted(foreign, 'record')} of another program, or unreadable, left out")
    say(_summary(target))
    return Exit.OK


def _reader(source: str, path: Path | None) -> tuple[str, RecordReader]:
    """With the name of the stream. Raises CannotRead, UsageError and ConfigError."""
    kinds = registry.types()
    load = kinds[_FILE].reader
    if path is None and Path(source).exists() and load is not None:
        options = kinds[_FILE].options.model_validate({"path": source})
        return f"file {Path(source).resolve()}", load()(source, options, cluster="", purpose=ReadPurpose.VERIFY)
    if path is None:
        found = default_file()
        if found is None:
            raise UsageError(
                f"kubedelta history build: there is no file {source}; of a sink, name the configuration (-c)"
            )
        path = found.path
    settings = load_settings(path)
    sink = settings.sinks.get(source)
    if sink is None:
        raise CannotRead(f"there is no such sink and no such file; the sinks are {', '.join(settings.sinks)}")
    load = kinds[sink.type].reader
    if load is None:
        raise CannotRead(f"a sink of type {sink.type} cannot be read back")
    reader = load()(source, sink.options, cluster=settings.cluster.name, purpose=ReadPurpose.VERIFY)
    return f"sink {source} of {settings.cluster.name}", reader


async def _build(reader: RecordReader, recorder: Recorder, line: ProgressLine, *, follow: bool) -> int:
    """Returns the number of foreign records."""
    records = foreign = 0
    try:
        complain(await reader.open())
        while True:
            async with aclosing(reader.read()) as batches:
                async for batch in batches:
                    with recorder.batch(recorder.position):
                        for event in _events(batch):
                            recorder.record(event)
                    records += len(batch)
                    line.show("records read", records)
            if not follow:
                return foreign
            await asyncio.sleep(_LOOK_EVERY)
    finally:
        await reader.close()


def _events(batch: Sequence[Record]) -> Iterator[Event]:
    for record in batch:
        try:
            yield record.event()
        except NotAnEvent:
            continue


def _summary(file: Path) -> str:
    with opened(file) as history:
        kept = history.size()
        return plain(
            f"{file}: {counted(kept.steps, 'step')} of {counted(kept.objects, 'object')} in {size(kept.bytes)}; "
            f"newest record {in_words(kept.newest)}"
        )
