"""Lives of an informer of pods, one after the other, over one ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from bridge.informer import SharedInformer, Timing
from bridge.model.answers import ListerWatcher
from bridge.model.change import Change, ChangeBatch
from bridge.model.record import Delta
from bridge.model.resource import Scope
from bridge.telemetry.facts import Fact
from tests.kit.model_ledger import ModelLedger
from tests.kit.records import PODS
from tests.kit.scripted_source import ScriptedSource, TakenOnTrust


@dataclass
class Lives:
    ledger: ModelLedger = field(default_factory=ModelLedger)
    batches: list[ChangeBatch] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Deliveries end while it is set."""

    def __post_init__(self) -> None:
        self.gate.set()

    async def deliver(self, batch: ChangeBatch) -> list[Delta]:
        await self.gate.wait()
        self.batches.append(batch)
        return self.ledger.commit(batch)

    def informer(self, source: ListerWatcher, **options: Any) -> SharedInformer:
        """Goes on from the ledger. ``options``: of SharedInformer."""
        own: dict[str, Any] = {
            "report": self.facts.append,
            "timing": Timing(),
            "watch_list": False,
            "stored": self.ledger.stored,
            "checkpoint": self.ledger.checkpoint(),
            "history": TakenOnTrust() if isinstance(source, ScriptedSource) else None,
        }
        return SharedInformer(PODS, Scope(), source, self.deliver, **(own | options))

    @asynccontextmanager
    async def running(self, source: ListerWatcher, **options: Any) -> AsyncGenerator[SharedInformer]:
        """Earlier deliveries are forgotten. Ends by stopping the informer."""
        self.batches.clear()
        self.facts.clear()
        informer = self.informer(source, **options)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            yield informer
            informer.stop()

    @property
    def changes(self) -> list[Change]:
        return [change for batch in self.batches for change in batch.changes]

    @property
    def delivered(self) -> list[str]:
        return [f"{change.op} {change.object.name}" for change in self.changes]

    def reported(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.facts if isinstance(fact, kind)]
