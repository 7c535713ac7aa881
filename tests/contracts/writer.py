"""A bridge that only writes, made to be killed: ``main(KIND, OPTIONS)``.

Delivers RECORDS, and after each receipt prints how many of them are acknowledged, in their order.
"""

from __future__ import annotations

import asyncio
import json
import sys

from sinks import registry
from sinks.base import SinkContext
from tests.contracts.destinations import CLUSTER
from tests.kit.records import changes

RECORDS = changes(20_000, keys=13)
BATCH = 100


def main(kind: str, options: str) -> None:
    asyncio.run(write(kind, options))


async def write(kind: str, options: str) -> None:
    chosen = registry.types()[kind].options.model_validate(json.loads(options))
    sink = registry.create("mine", kind, chosen, cluster=CLUSTER)
    await sink.open(SinkContext())
    for start in range(0, len(RECORDS), BATCH):
        receipt = await sink.deliver(RECORDS[start : start + BATCH])
        if receipt.pending or receipt.rejected:
            sys.exit(f"{receipt}")
        print(start + BATCH, flush=True)
    await asyncio.Event().wait()  # Whoever shall kill it may be late.
