"""``kubedelta verify``: compares the records at a sink's destination with the cluster, or the closed parts of a file
sink with their seals."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kubedelta_reader.sources import Unavailable

from bridge.checks.compare import Difference, DifferenceKind
from bridge.checks.verify import Verification
from bridge.checks.verify import verify as compare
from bridge.cli.exits import CommandEnds, Exit
from bridge.cli.settings import load_settings
from bridge.cli.terminal import plain, progress, say
from bridge.model.formats.object_paths import object_name
from bridge.model.primitives.printable import counted
from bridge.plan.cluster_view import Version
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import wrong_selections
from config.schema import Settings
from sinks import registry
from sinks.base import CannotRead, ReadPurpose, RecordReader
from sinks.reader import CheckedSeals


def verify(
    path: Path, sink: str | None, *, seals: Path | None, key: Path | None, settle: float, limit: int, as_json: bool
) -> int:
    """Prints the differences. Returns OK without differences, else NO."""
    if sink is None:
        return _verify_seals(seals or path, key, as_json=as_json)
    settings = load_settings(path)
    try:
        reader = _reader(settings, sink)
    except CannotRead as error:
        raise CommandEnds(Exit.CONFIG, f"sinks.{sink}: {error}") from error
    plan = plan_of(settings)
    if plan.unknown_shard:
        raise CommandEnds(Exit.CONFIG, f"shard.index: {plan.unknown_shard}")
    [mine] = [each for each in plan.sinks if each.name == sink]
    for option, reason in wrong_selections([mine]):
        raise CommandEnds(Exit.CONFIG, f"{option}: {reason}")
    try:
        with progress(quiet=as_json) as line:
            found = asyncio.run(compare(plan, mine, reader, settle=settle, progress=line.show if line.on else None))
    except Unavailable as error:
        raise CommandEnds(Exit.UNAVAILABLE, f"sinks.{sink}: {error}") from error
    with suppress(BrokenPipeError):  # A reader that closes the pipe still gets the exit code.
        say(_document(sink, found, limit) if as_json else _text(sink, found, limit))
        sys.stdout.flush()
    return Exit.NO if found.differences else Exit.OK


def _verify_seals(folder: Path, key: Path | None, *, as_json: bool) -> int:
    """Of each file whose parts are sealed. Returns OK where all are as they were; NO also where there is none."""
    try:
        keys = [] if key is None else [line for line in key.read_text().splitlines() if line.strip()]
        found = registry.check_seals(folder, keys)
    except ValueError as error:
        raise CommandEnds(Exit.CONFIG, f"--key: {key}: {error}") from error
    except OSError as error:
        raise CommandEnds(Exit.CONFIG, f"cannot read {error.filename or folder}: {error.strerror}") from error
    if not found:
        raise CommandEnds(Exit.NO, f"{folder} has no file *.seals: see rotation.seal of file sinks")
    with suppress(BrokenPipeError):
        say(
            json.dumps([asdict(each) for each in found], indent=2, default=str)
            if as_json
            else "\n".join(line for each in found for line in _seals_text(each))
        )
        sys.stdout.flush()
    return Exit.NO if any(each.faults for each in found) else Exit.OK


def _seals_text(found: CheckedSeals) -> list[str]:
    numbers = f"{found.sealed} sealed, {found.removed} removed by retention, {len(found.unsealed)} without a seal"
    return [
        *(f"{plain(found.seals.name)}: {plain(fault)}" for fault in found.faults),
        f"{plain(found.seals.name)}: {counted(len(found.faults), 'fault')}; parts: {numbers}; last line {found.last}",
    ]


def _reader(settings: Settings, sink: str) -> RecordReader:
    """Raises CannotRead."""
    chosen = settings.sinks.get(sink)
    if chosen is None:
        raise CannotRead(f"there is no such sink; the sinks are {', '.join(settings.sinks)}")
    cluster = settings.cluster.name
    reader = registry.reader(sink, chosen.type, chosen.options, cluster=cluster, purpose=ReadPurpose.VERIFY)
    if reader is None:
        able = ", ".join(name for name, kind in registry.types().items() if kind.reader)
        raise CannotRead(f"a sink of type {chosen.type} cannot be read back; these types can: {able}")
    return reader


# ── For people ───────────────────────────────────────────────────────────────


def _text(sink: str, found: Verification, limit: int) -> str:
    lines = [_line(each) for each in found.differences[:limit]]
    if more := len(found.differences) - len(lines):
        lines.append(f"and {more} more")
    lines += [f"note: {plain(note)}" for note in _notes(found)]
    numbers = _numbers(found)
    lines.append(
        f"{sink}: {', '.join(f'{numbers[kind]} {kind}' for kind in DifferenceKind)}; "
        f"{counted(found.live, 'object')} live, {found.stored} stored, in {counted(found.records, 'record')} of "
        f"{plain(found.source)}"
    )
    return "\n".join(lines)


def _line(each: Difference) -> str:
    name = object_name(each.key)
    subject = f"{name.resource} {name.key}" if name else each.key
    return f"{each.kind:<8} {plain(subject)}: {plain(_why(each))}"


def _why(each: Difference) -> str:
    live, stored = each.live, each.stored
    if live is None or stored is None:
        version = stored or live
        shown = f"version {version.resource_version} of {version.uid}" if version else ""
        return f"{shown} is {'gone from the cluster' if live is None else 'not stored'}"
    if live.uid != stored.uid:
        return f"the destination has another object of that name, {stored.uid}; live is {live.uid}"
    return f"the destination has version {stored.resource_version}, live is {live.resource_version}"


def _notes(found: Verification) -> list[str]:
    notes = list(found.notes)
    if found.gaps:
        notes.append(f"{counted(found.gaps, 'gap')} in the stream: records that were never delivered")
    if found.foreign:
        notes.append(f"{counted(found.foreign, 'record')} of another program or cluster, or unreadable")
    for resource, count in sorted(found.uncovered.items()):
        notes.append(f"{counted(count, 'record')} of {resource}, which is not configured, were not compared")
    return notes


# ── For programs ─────────────────────────────────────────────────────────────


def _document(sink: str, found: Verification, limit: int) -> str:
    lines = found.differences[:limit]
    document: dict[str, Any] = {
        "sink": sink,
        "source": found.source,
        "live": found.live,
        "stored": found.stored,
        "records": found.records,
        **{str(kind): count for kind, count in _numbers(found).items()},
        "gaps": found.gaps,
        "foreign": found.foreign,
        "uncovered": dict(found.uncovered),
        "notes": list(found.notes),
        "differences": [_member(each) for each in lines],
        "more": len(found.differences) - len(lines),
    }
    return json.dumps(document, indent=2)


def _member(each: Difference) -> dict[str, Any]:
    name = object_name(each.key)
    parts = {"resource": name.resource, "namespace": name.namespace, "name": name.name} if name else {}
    return {"kind": str(each.kind), **parts, "live": _version(each.live), "stored": _version(each.stored)}


def _version(version: Version | None) -> dict[str, str] | None:
    return {"uid": version.uid, "resourceVersion": version.resource_version} if version else None


def _numbers(found: Verification) -> dict[DifferenceKind, int]:
    return {kind: sum(each.kind is kind for each in found.differences) for kind in DifferenceKind}
