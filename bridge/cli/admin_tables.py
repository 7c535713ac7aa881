"""Makes tables for people of the answers to admin commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.cli.terminal import age, pairs, plain, shortened, size, table
from bridge.model.admin import Cursors, CursorStatus, DeadLetter, DeadLetterChain, StateReport
from bridge.model.primitives.printable import counted
from bridge.model.status import SnapshotStatus

_LONGEST_REASON = 80


def of_cursors(found: Cursors) -> str:
    header = ("SINK", "SETTLED", "BACKLOG", "BYTES", "OLDEST", "")
    replayable = f"{found.first} to {found.last}" if found.first <= found.last else "no records"
    # Without it, the log has the backlogs alone.
    replay = f"{replayable} can be replayed" if found.retains else "replay: off (state.retain)"
    return f"{table(header, [_cursor(each) for each in found.sinks])}\n{replay}"


def _cursor(cursor: CursorStatus) -> list[str]:
    notes = []
    if cursor.gone:
        reason = shortened(cursor.last_error, _LONGEST_REASON) or "the destination wants no more records (HTTP 410)"
        notes.append(f"gone, until kubedelta sinks resume: {reason}")
    elif cursor.fenced:
        reason = shortened(cursor.last_error, _LONGEST_REASON) or "another bridge has taken the destination over"
        notes.append(f"fenced, until kubedelta sinks resume: {reason}")
    elif cursor.paused:
        notes.append("paused")
    elif cursor.retry_in is not None:
        asked = f" (the destination asked for {age(cursor.asked)})" if cursor.asked else ""
        notes.append(f"next attempt in {age(cursor.retry_in)}{asked}: {shortened(cursor.last_error, _LONGEST_REASON)}")
    elif cursor.last_error:
        notes.append(f"failing: {shortened(cursor.last_error, _LONGEST_REASON)}")
    if cursor.backfill:
        notes.append(f"{cursor.backfill}: {cursor.backfill_left} left")
    if not cursor.configured:
        notes.append("not in the configuration")
    oldest = age(cursor.oldest_seconds) if cursor.backlog_records else "-"
    return [
        cursor.sink,
        str(cursor.settled),
        str(cursor.backlog_records),
        size(cursor.backlog_bytes),
        oldest,
        "; ".join(notes),
    ]


def of_snapshots(snapshots: Sequence[SnapshotStatus]) -> str:
    header = ("SINK", "SNAPSHOT", "STATE", "OBJECTS", "LEFT", "BEGAN", "ENDED", "")
    return table(header, [_snapshot(each) for each in snapshots])


def _snapshot(snapshot: SnapshotStatus) -> list[str]:
    narrowed = {"--resource": snapshot.resource, "--namespace": snapshot.namespace, "--where": snapshot.where}
    return [
        snapshot.sink,
        str(snapshot.number),
        snapshot.state,
        str(snapshot.objects),
        str(snapshot.left),
        f"{snapshot.began[:19]}Z",
        f"{snapshot.ended[:19]}Z" if snapshot.ended else "-",
        " ".join(f"{option} {value}" for option, value in narrowed.items() if value is not None),
    ]


def of_dead_letters(chains: Sequence[DeadLetterChain]) -> str:
    header = ("NUMBER", "SINK", "SEEN", "RESOURCE", "OBJECT", "OP", "STATE", "REASON")
    return table(header, [_chain(each) for each in chains])


def _chain(chain: DeadLetterChain) -> list[str]:
    dead_letter = chain.first
    reason = shortened(plain(dead_letter.reason), _LONGEST_REASON)
    seen = f"{dead_letter.time[:19]}Z"
    return [
        str(dead_letter.number),
        dead_letter.sink,
        seen,
        dead_letter.resource,
        dead_letter.key,
        dead_letter.op,
        _state(dead_letter) if chain.rejected + chain.parked == 1 else _states(chain),
        reason,
    ]


def _states(chain: DeadLetterChain) -> str:
    found = f"{chain.rejected} rejected, {chain.parked} parked"
    return f"retrying {found}" if chain.first.retrying else found


def _state(dead_letter: DeadLetter) -> str:
    return "retrying" if dead_letter.retrying else "parked" if dead_letter.parked else "rejected"


def of_dead_letter(dead_letter: DeadLetter) -> str:
    return pairs(
        [
            ("number", str(dead_letter.number)),
            ("sink", dead_letter.sink),
            ("sequence", str(dead_letter.sequence)),
            ("id", dead_letter.id),
            ("resource", dead_letter.resource),
            ("object", dead_letter.key),
            ("op", dead_letter.op),
            ("seen", dead_letter.time),
            ("state", _state(dead_letter)),
            ("reason", dead_letter.reason),
            *([("answer", dead_letter.answer)] if dead_letter.answer else []),
        ]
    )


def _encryption(bytes_by_key: Mapping[str, int]) -> list[tuple[str, str]]:
    """Nothing about a state that has no key."""
    if not any(bytes_by_key):
        return []
    under = {name: f"{size(count)} of content" for name, count in sorted(bytes_by_key.items()) if name}
    return [*((f"key {name}", text) for name, text in under.items()), ("no key", size(bytes_by_key.get("", 0)))]


def of_state(report: StateReport) -> str:
    counts = pairs(
        [
            ("path", report.path),
            ("sqlite", report.sqlite),
            ("format", str(report.format)),
            ("cluster", report.cluster or "not known"),
            *([("shard", report.shard)] if report.shard else []),
            ("records", str(report.records)),
            ("objects", str(report.objects)),
            ("informers", str(report.informers)),
            ("sinks", str(report.sinks)),
            ("dead letters", str(report.dead_letters)),
            ("file", f"{size(report.file_bytes)}, of which {size(report.free_bytes)} are free"),
            ("wal", size(report.wal_bytes)),
            *_encryption(report.bytes_by_key),
            ("integrity", counted(len(report.problems), "problem") if report.problems else "ok"),
        ]
    )
    return "\n".join([counts, *(f"  {plain(problem)}" for problem in report.problems)])
