"""The bare clients that the webhook sink is measured against."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import httpx

from benchmarks.meter import Figures
from benchmarks.processes import Child
from benchmarks.runs import Around
from benchmarks.servers import Load, LoadServer


def post(around: Around, events: int, concurrency: int, client: str) -> Figures:
    """Post what the bridge would post of one pod, so many times, and do nothing else. ``client``: see
    `floor/post.py`."""
    place = around.place(Load(pods=1))
    with place.server as server:
        body = place.folder / "body"
        body.write_bytes(_an_event(server))
        environ = {
            "SERVER": server.hook_url,
            "RECORDS": str(events),
            "BODY": str(body),
            "CONCURRENCY": str(concurrency),
            "CLIENT": client,
        }
        script = Path(__file__).parent / "floor" / "post.py"
        child = Child([sys.executable, script], environ, place.folder / "log")
        try:
            child.wait(3600)
        finally:
            child.kill()
        said = json.loads(child.output())
        return {"cpu_us": said["cpu_seconds"] / events * 1e6, "events_per_second": events / said["wall_seconds"]}


def _an_event(server: LoadServer) -> bytes:
    """One pod without managedFields, as a CloudEvent."""
    [pod] = httpx.get(f"{server.url}/api/v1/pods", trust_env=False, verify=False).json()["items"]
    del pod["metadata"]["managedFields"]
    meta = pod["metadata"]
    attributes = {
        "specversion": "1.0",
        "id": f"{meta['uid']}/{meta['resourceVersion']}/updated",
        "source": "/clusters/load",
        "type": "kubedelta.object.updated.v1",
        "subject": f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}",
        "time": "2026-01-12T09:40:51.000000Z",
        "datacontenttype": "application/json",
    }
    return json.dumps(
        {**attributes, "data": {"kind": "Pod", "apiVersion": "v1", **pod}}, separators=(",", ":")
    ).encode()
