"""Half an hour of steady load: what the bridge needs does not grow with what has passed through it."""

from __future__ import annotations

import asyncio
import os
from itertools import cycle
from pathlib import Path

import pytest

from bridge.playground import Playground
from bridge.playground.manifests import pod
from tests.kit.bridge_process import BridgeProcess
from tests.kit.webhook_receiver import WebhookReceiver

OBJECTS = 500
PER_SECOND = 200
LOOK = 30.0
"""Seconds between two looks."""
WARM = 4
"""Looks until caches are full and dictionaries made."""
MAY_GROW = 1.15
MINUTES = float(os.environ.get("KUBEDELTA_SOAK_MINUTES", "30"))


@pytest.mark.soak
@pytest.mark.timeout(MINUTES * 60 + 300)
async def test_memory_and_the_file_stay_constant_under_steady_load(receiver: WebhookReceiver, tmp_path: Path) -> None:
    config = {
        "cluster": {"name": "playground"},
        "resources": ["pods"],
        "sinks": {
            "hook": {"type": "webhook", "url": receiver.url, "batch": 50},
            "copy": {"type": "file", "path": str(tmp_path / "deltas.ndjson"), "fsync": "never"},
        },
    }
    async with Playground() as cluster:
        for number in range(OBJECTS):
            cluster.create("pods", pod(f"web-{number}", size=4000))
        environ = {"KUBEDELTA__CLUSTER__SERVER": cluster.url}
        async with BridgeProcess(tmp_path / "bridge", config, environ=environ).started() as bridge:
            loop, names, made = asyncio.get_running_loop(), cycle(range(OBJECTS)), 0
            looks: list[tuple[int, int, int]] = []
            began = loop.time()
            while loop.time() - began < MINUTES * 60:
                for _ in range(PER_SECOND // 10):
                    made += 1
                    cluster.patch("pods", f"web-{next(names)}", {"metadata": {"labels": {"made": str(made)}}})
                await asyncio.sleep(0.1)  # It is the load that is steady, not a wait for anything.
                if loop.time() - began > LOOK * (len(looks) + 1):
                    receiver.accepted.clear()
                    receiver.asked.clear()
                    metrics = await bridge.until_delivered("hook", "copy")
                    sizes = int(metrics.value("outbox_file_bytes")), int(metrics.value("outbox_wal_bytes"))
                    looks.append((bridge.rss_bytes(), *sizes))
                    print(
                        f"{loop.time() - began:5.0f} s, {made} changes: RSS {looks[-1][0] >> 20} MiB, file "
                        f"{sizes[0] >> 10} KiB, write-ahead log {sizes[1] >> 10} KiB",
                        flush=True,
                    )

    for what, values in zip(("RSS", "file", "write-ahead log"), zip(*looks, strict=True), strict=True):
        assert max(values[WARM:]) <= MAY_GROW * max(values[:WARM]), (what, values)
