"""A bridge that only writes, made to be killed: ``python -m tests.contracts.writer KIND OPTIONS``.

Delivers RECORDS, and after each receipt prints how many of them are acknowledged, in their order.
"""

from __future__ import annotations

import asyncio
import json
import sys

from sinks import registry
from tests.contracts.destinations import CLUSTER
from tests.kit.records import changes

RECORDS = changes(20_000, keys=13)
BATCH = 100


async def main(kind: str, options: str) -> None:
    chosen = registry.types()[kind].options.model_validate(json.loads(options))
    sink = registry.create("mine", kind, chosen, cluster=CLUSTER)
    await sink.open()
    for start in range(0, len(RECORDS), BATCH):
        receipt = await sink.deliver(RECORDS[start : start + BATCH])
        if receipt.pending or receipt.rejected:
            sys.exit(f"{receipt}")
        print(start + BATCH, flush=True)
    await asyncio.Event().wait()  # Whoever shall kill it may be late.


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
