"""``kubedelta history build``: reads a stream, and keeps its steps in a file.

Records and the position behind them are one transaction of the file, so the command can be ended at any moment, and
goes on where it was.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, closing
from pathlib import Path

from kubedelta_reader import NotAnEvent
from kubedelta_reader.sources import Source, Unavailable

from bridge.cli.arguments import UsageError, default_file, history_file
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.history import DAMAGED, opened
from bridge.cli.settings import load_settings
from bridge.cli.terminal import ProgressLine, complain, plain, progress, say, size
from bridge.history.points import in_words
from bridge.history.recorder import HistoryBounds, Recorder
from bridge.history.retained_log import RetainedLog
from bridge.model.primitives.printable import counted
from bridge.plan.keys import load_cipher
from bridge.plan.plan_from_settings import plan_of
from sinks import registry
from sinks.base import CannotRead, ReadPurpose


def build(source: str, path: Path | None, *, file: Path | None, follow: bool, keep: float, max_bytes: int) -> int:
    """``source``: the path of a file, the state directory of a bridge, or a sink of the configuration at ``path``.
    Without ``path``, a file that exists is meant before a sink of the default configuration. ``keep``: seconds."""
    target, bounds = history_file(file), HistoryBounds(keep, max_bytes)
    try:
        name, stream = _stream(source, path)
        with progress() as line, closing(Recorder(target, name, bounds, partitioned=stream.partitioned)) as recorder:
            foreign = asyncio.run(_build(stream, recorder, line, follow=follow))
    except CannotRead as error:
        raise CommandEnds(Exit.NO, f"{source}: {error}") from error
    except Unavailable as error:
        raise CommandEnds(Exit.UNAVAILABLE, f"{source}: {error}") from error
    except DAMAGED as error:
        raise CommandEnds(Exit.DAMAGED, f"{target}: {error}") from error
    if foreign:
        complain(f"{counted(foreign, 'record')} of another program, left out")
    say(_summary(target))
    return Exit.OK


def _stream(source: str, path: Path | None) -> tuple[str, Source]:
    """With its name. Raises CannotRead, UsageError and ConfigError."""
    place = Path(source)
    if path is None and place.exists() and not place.is_dir():
        return f"file {place.resolve()}", registry.reader_of_file(source, ReadPurpose.HISTORY)
    if path is None and (default := default_file()) is not None:
        path = default.path
    if place.is_dir():
        return f"log {place.resolve()}", _retained_log(place, path)
    if path is None:
        words = f"there is no file {source}; of a sink, name the configuration (-c)"
        raise UsageError(f"kubedelta history build: {words}")
    settings = load_settings(path)
    cluster = settings.cluster.name
    sink = settings.sinks.get(source)
    if sink is None:
        raise CannotRead(f"there is no such sink and no such file; the sinks are {', '.join(settings.sinks)}")
    stream = registry.reader(source, sink.type, sink.options, cluster=cluster, purpose=ReadPurpose.HISTORY)
    if not isinstance(stream, Source):
        raise CannotRead(f"a sink of type {sink.type} cannot be read back")
    return f"sink {source} of {cluster}", stream


def _retained_log(directory: Path, path: Path | None) -> RetainedLog:
    """The configuration has the name of the cluster, and keys where the state is encrypted. Raises ConfigError and
    StateError."""
    if path is None:
        return RetainedLog(directory, "default", None)
    settings = load_settings(path)
    return RetainedLog(directory, settings.cluster.name, load_cipher(plan_of(settings, path)))


async def _build(stream: Source, recorder: Recorder, line: ProgressLine, *, follow: bool) -> int:
    """Returns the number of foreign records."""
    records = foreign = 0
    was_lost = False
    async with stream:
        try:
            await stream.resume(recorder.position)
        except ValueError as error:
            raise CannotRead(f"the file is of another destination under this name: {error}") from error
        async with aclosing(stream.follow() if follow else stream.read()) as batches:
            async for batch in batches:
                with recorder.batch(stream.position):
                    if stream.lost and not was_lost:
                        recorder.lose("they were removed before they were read")
                        was_lost = True
                    for record in batch:
                        if record.data is None and record.headers is None:
                            recorder.lose("a part of the file is damaged")
                            continue
                        try:
                            event = record.event()
                        except NotAnEvent:
                            foreign += 1
                            continue
                        recorder.record(event, record.partition)
                records += len(batch)
                line.show("records read", records)
    return foreign


def _summary(file: Path) -> str:
    with opened(file) as history:
        kept = history.size()
        newest = f"newest record {in_words(kept.newest)}" if kept.newest else "no record yet"
        steps = f"{counted(kept.steps, 'step')} of {counted(kept.objects, 'object')}"
        return plain(f"{file}: {steps} in {size(kept.bytes)}; {newest}")
