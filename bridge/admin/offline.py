"""The state of a bridge that does not run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bridge.admin.operations import OfflineOperations
from bridge.facts import discard
from bridge.model.admin import AdminOperations
from bridge.outbox import Outbox
from bridge.plan.encryption_keys import load_cipher
from bridge.plan.plan_from_settings import plan_of
from config.schema import Settings


@asynccontextmanager
async def open_admin(settings: Settings) -> AsyncIterator[AdminOperations]:
    """Holds the lock of the directory inside the context. Raises StateError, and Damaged for a damaged database, which
    stays unchanged."""
    plan = plan_of(settings)
    sinks = {sink.name: sink.start for sink in plan.sinks}
    async with await Outbox.open(
        plan.state, sinks, retention=plan.retention, report=discard, only_existing=True, cipher=load_cipher(plan)
    ) as outbox:
        yield OfflineOperations(outbox, plan.cluster)
