"""Events through the bridge inside one process: watch lines in, file sink out, nothing left out in between.

    python -m benchmarks [--events N] [--rounds N]

Prints CPU microseconds per event of each round and the median. The server's part is not in it: lines are rendered
before the clock starts. The floor beside it splits the same lines and looks at nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bridge.app.exporter import Exporter
from bridge.delivery.worker import Worker
from bridge.facts import unheard
from bridge.informer import SharedInformerFactory, Timing
from bridge.kube.frames import Frames
from bridge.model.answers import Bookmark, ListAnswer, ListRequest, Opened, Page, WatchAnswer, WatchRequest
from bridge.model.record import Record
from bridge.model.resource import Resource, Scope
from bridge.outbox.memory import MemoryOutbox, utc_now
from bridge.processor.pipeline import transform_for
from bridge.processor.shared_processor import SharedProcessor
from sinks import registry

PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
OBJECTS = 1000
CHUNK = 128 * 1024
"""Bytes, as the transport hands them on."""


def a_pod(number: int, version: int) -> dict[str, Any]:
    """About 7.8 KB, a quarter of it managedFields."""
    fields: dict[str, Any] = {f"f:field-{each}": {"f:name": {}, "f:value": {}} for each in range(40)}
    environment = [{"name": f"VARIABLE_{each}", "value": "some value of usual length"} for each in range(38)]
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "m" * 60}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"web-{number}",
            "namespace": "shop",
            "uid": f"0f2c9a7e-6f6e-4f8b-9d53-{number:012d}",
            "resourceVersion": str(version),
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6"},
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {"containers": [{"name": each, "image": "web:1.2.3", "env": environment} for each in ("web", "side")]},
        "status": {"phase": "Running", "conditions": [condition] * 8},
    }


def rendered(events: int) -> list[bytes]:
    """The bytes of one watch, in chunks."""
    lines = [
        b'{"type":"MODIFIED","object":' + json.dumps(a_pod(each % OBJECTS, each + 10), separators=(",", ":")).encode()
        for each in range(events)
    ]
    stream = b"}\n".join(lines) + b"}\n"
    return [stream[start : start + CHUNK] for start in range(0, len(stream), CHUNK)]


class Replay:
    """A ListerWatcher that lists nothing and then tells the rendered watch."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks
        self.began = 0.0

    async def list(self, request: ListRequest) -> ListAnswer:
        return Page([], "1", None)

    def watch(self, request: WatchRequest) -> Replay:
        return self

    async def __aenter__(self) -> Any:
        return self._answers()

    async def __aexit__(self, *_: object) -> None:
        return

    async def _answers(self) -> Any:
        yield Opened()
        frames = Frames(PODS)
        self.began = time.process_time()
        for chunk in self._chunks:
            for answer in frames.feed(chunk):
                yield answer
            await asyncio.sleep(0)
        yield await self._for_ever()

    async def _for_ever(self) -> WatchAnswer:
        await asyncio.Event().wait()
        return Bookmark("1")


async def bridge_cost(chunks: list[bytes], events: int, path: Path) -> float:
    """CPU seconds from the first chunk until the file sink has acknowledged the last event."""
    outbox = MemoryOutbox(max_records=100_000, max_bytes=256 << 20)
    processor = SharedProcessor[Record](outbox, audience=lambda record: getattr(record, "audience", None))
    kind = registry.types()["file"]
    options = kind.options.model_validate({"path": path})
    worker = Worker(
        "file",
        lambda: registry.create("file", "file", options, cluster="bench"),
        processor.add("file", after=outbox.register("file"), window=1000),
        settle=lambda through: outbox.settle("file", through),
        report=unheard,
        now=utc_now,
        max_batch=kind.max_batch,
    )
    source = Replay(chunks)
    async with asyncio.TaskGroup() as tasks:
        delivering = tasks.create_task(worker.run())
        async with SharedInformerFactory(
            lambda _resource, _scope: source,
            deliver=Exporter(outbox, processor, unheard).export,
            transform=transform_for,
            indexers={},
            timing=Timing(),
            watch_list=False,
        ) as factory:
            factory.informer(PODS, Scope())
            factory.start()
            await worker.wait_settled(events)
            spent = time.process_time() - source.began
            await factory.stop()
        delivering.cancel()
    return spent


def floor_cost(chunks: list[bytes]) -> float:
    """CPU seconds of splitting the same bytes into lines."""
    began = time.process_time()
    rest = b""
    for chunk in chunks:
        *_, rest = (rest + chunk).split(b"\n")
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    chunks = rendered(chosen.events)
    size = sum(map(len, chunks)) / chosen.events
    print(f"{chosen.events} events of {size:.0f} bytes, {OBJECTS} objects, strip on, file sink acknowledged")
    costs = []
    with TemporaryDirectory() as folder:
        for number in range(chosen.rounds):
            floor = floor_cost(chunks) / chosen.events * 1e6
            path = Path(folder) / f"round-{number}.ndjson"
            cost = asyncio.run(bridge_cost(chunks, chosen.events, path)) / chosen.events * 1e6
            path.unlink()
            costs.append(cost)
            print(f"round {number + 1}: {cost:6.1f} µs CPU per event; splitting lines alone {floor:.1f} µs")
    print(f"median: {statistics.median(costs):.1f} µs CPU per event")


if __name__ == "__main__":
    main()
