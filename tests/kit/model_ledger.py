"""The outbox in a few lines, as far as an informer can notice: what is in it survives, everything else does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from bridge.model.change import Change, ChangeBatch, ObjectVersion, Op
from bridge.model.record import Delta
from bridge.model.versions import Checkpoint, VersionTable, is_older
from tests.kit.records import TIME


@dataclass
class ModelLedger:
    """One informer's part. A batch is taken whole or not at all. Only the record at which an object rests is kept."""

    objects: dict[str, ObjectVersion] = field(default_factory=dict)
    bodies: dict[int, bytes] = field(default_factory=dict)
    position: str | None = None
    newest: str | None = None
    epoch: int = 1
    last: int = 0
    """The newest sequence number."""

    def commit(self, batch: ChangeBatch) -> list[Delta]:
        """The records of the batch."""
        records = [
            Delta(
                sequence,
                change.op,
                change.evidence,
                batch.resource,
                change.object.key,
                change.object.uid,
                change.object.resource_version,
                TIME,
                batch.epoch,
                change.object.body,
            )
            for sequence, change in enumerate(batch.changes, self.last + 1)
        ]
        if batch.epoch > self.epoch:
            self.epoch, self.position, self.newest = batch.epoch, None, None
        for change in batch.changes:
            self._store(change)
        if batch.position is not None:
            self.position = batch.position
            self._received(batch.position)
        elif not all(change.op.is_copy for change in batch.changes):
            self.position = None
        return records

    def stored(self, sequence: int) -> bytes:
        """Raises KeyError for a record that no object rests at."""
        return self.bodies[sequence]

    def checkpoint(self) -> Checkpoint | None:
        if self.newest is None and self.epoch == 1:
            return None
        return Checkpoint(VersionTable(self.objects), self.position, self.newest, self.epoch)

    def _store(self, change: Change) -> None:
        self.last += 1
        if change.op.is_copy:
            return
        thing = change.object
        if before := self.objects.pop(thing.key, None):
            del self.bodies[before.state]  # type: ignore[arg-type]
        if change.op is not Op.DELETED:  # Which may carry the version of an older epoch.
            self.objects[thing.key] = ObjectVersion(thing.uid, thing.resource_version, self.last)
            self.bodies[self.last] = thing.body
            self._received(thing.resource_version)

    def _received(self, version: str) -> None:
        if self.newest is None or is_older(self.newest, version):
            self.newest = version
