"""The metrics that a bridge exposes."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

from bridge.model.primitives.shard import Shard
from bridge.model.resource import Resource, Scope
from bridge.model.status import (
    BridgeStatus,
    ConfigurationStatus,
    ElectionState,
    ElectionStatus,
    FollowerStatus,
    InformerState,
    InformerStatus,
    SinkState,
    SinkStatus,
)
from bridge.telemetry.facts.informer import InformerStarted
from bridge.telemetry.metrics import Metrics


def exposed_metrics() -> dict[str, set[str]]:
    """Each family, by its name in Prometheus, with its labels (without ``le``)."""
    metrics = Metrics(version="0", failures={"logs": 0})
    metrics.expect_sinks("copy")
    metrics.observe(InformerStarted(Resource("", "v1", "pods", "Pod", True), Scope()))
    pods = InformerStatus(
        resource="pods", scope="all", state=InformerState.LIVE, synced=True, live=True, last_contact=1
    )
    sink = SinkStatus(name="copy", type="file", state=SinkState.IDLE)
    configuration = ConfigurationStatus(digest="a1b2c3d4", loaded_at=1.0)
    election = ElectionStatus(
        state=ElectionState.LEADING,
        identity="pod-0_f00d",
        renewed_seconds=1.0,
        followers=(FollowerStatus("pod-1", True, 0, 0.0),),
    )
    snapshot = BridgeStatus(
        informers=(pods,),
        sinks=(sink,),
        disk_free_bytes=1,
        configuration=configuration,
        shard=Shard(4, 2),
        election=election,
    )
    body, _ = metrics.render(snapshot, "")
    named = re.findall(r"^# TYPE (\S+) ", body.decode(), re.MULTILINE)
    families = zip(named, text_string_to_metric_families(body.decode()), strict=True)
    return {name: {label for sample in family.samples for label in sample.labels} - {"le"} for name, family in families}
