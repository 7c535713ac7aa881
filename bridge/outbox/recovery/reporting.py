"""The facts about an opened state."""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from bridge.facts import OutboxOpened, OutboxRebuilt, ReplicasLeft, Report, StateExposed, StateMigrated
from bridge.outbox.recovery.opening import OpenedState


def report_opened(opened: OpenedState, records: int, sinks: Iterable[str], report: Report) -> None:
    """``records``: that sinks can read. ``sinks``: those that get a Gap after damage."""
    files = opened.state_directory
    report(OutboxOpened(str(files.file), apsw.sqlite_lib_version(), records, opened.objects))
    if opened.migrated:
        report(StateMigrated(str(files.file), opened.migrated))
    if opened.left_replicas:
        report(ReplicasLeft(str(files.file)))
    if files.exposed:
        report(StateExposed(str(files.file.parent), files.exposed))
    if opened.damage:
        report(OutboxRebuilt(str(opened.aside or ""), opened.damage, tuple(sinks)))
