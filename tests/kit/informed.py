"""One informer as the outbox meets it: what it knows, the batches it sends, and where their bodies rest afterwards."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random

from bridge.model.change import Change, ChangeBatch, Evidence, ObjectVersion, Op
from bridge.model.object import ApiObject
from bridge.model.record import Delta
from bridge.model.resource import Resource, Scope
from bridge.outbox import Outbox
from tests.kit.records import PODS


@dataclass
class Informed:
    """Keys → what is known, as the Indexer has it: the sequence number of a record, or within a batch the body."""

    resource: Resource = PODS
    scope: Scope = field(default_factory=Scope)
    versions: Iterator[int] = field(default_factory=lambda: count(100))
    epoch: int = 1
    evidence: Evidence = Evidence.WATCHED
    padding: int = 0
    """Bytes of every body that say nothing."""
    noise: int = 0
    """Bytes of every body that no compression makes smaller."""
    known: dict[str, ObjectVersion] = field(default_factory=dict)
    bodies: dict[str, bytes] = field(default_factory=dict)

    async def begin(self, outbox: Outbox) -> Informed:
        """Alone on its resource, with what the ledger remembers."""
        checkpoint, _ = await outbox.ledger.adopt(self.resource, [self.scope])
        if (found := checkpoint[self.scope]) is not None:
            self.known, self.epoch = dict(found.objects), found.epoch
        return self

    async def exports(self, outbox: Outbox, *steps: str, position: str | None = "100") -> Sequence[Delta]:
        """Each step is an op and a key: ``added shop/web``."""
        batch = self.batch([self.change(step) for step in steps], position)
        deltas = await outbox.append(batch)
        self.offload(batch, deltas)
        return deltas

    def batch(self, changes: list[Change], position: str | None) -> ChangeBatch:
        return ChangeBatch(self.resource, self.scope, changes, position, self.epoch)

    def change(self, step: str, targets: tuple[str, ...] | None = None) -> Change:
        op, key = step.split()
        before = self.known.get(key)
        if op in ("deleted", "sync") and before is not None:
            thing = ApiObject(key, before.uid, before.resource_version, self.bodies.get(key, b"{}"))
        else:
            thing = self._object(key, before.uid if before is not None else f"uid-{key}-{next(self.versions)}")
        if op == "deleted":
            self.known.pop(key, None)
        elif op != "sync":
            self.known[key] = ObjectVersion(thing.uid, thing.resource_version, thing.body)
            self.bodies[key] = thing.body
        return Change(Op(op), self.evidence, thing, before, targets)

    def offload(self, batch: ChangeBatch, deltas: Sequence[Delta]) -> None:
        """The bodies of this batch are in these records."""
        for change, delta in zip(batch.changes, deltas, strict=True):
            if change.op.has_state and change.object.key in self.known:
                self.known[delta.key] = ObjectVersion(delta.uid, delta.resource_version, delta.sequence)

    def _object(self, key: str, uid: str) -> ApiObject:
        version = str(next(self.versions))
        noise = b64encode(Random(version).randbytes(self.noise)).decode()
        body = (
            f'{{"kind":"{self.resource.kind}","key":"{key}","version":"{version}","x":"{"x" * self.padding}{noise}"}}'
        )
        return ApiObject(key, uid, version, body.encode())
