"""The whole file as one frozen type, ``Settings``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, Field, SerializeAsAny
from pydantic_settings import BaseSettings, SettingsConfigDict

from config.schema.cluster import ClusterSettings, ElectionSettings
from config.schema.delivery import DeliverySettings
from config.schema.page import PageSettings
from config.schema.redaction import RedactionSettings
from config.schema.resources import ResourceEntry
from config.schema.state import StateSettings
from config.schema.telemetry import TelemetrySettings, TracingSettings
from config.schema.watch import ShardSettings, WatchSettings
from config.values import Between, Duration


class SinkSettings(DeliverySettings):
    """One sink: the common options, and the options of its type."""

    type: str
    options: SerializeAsAny[BaseModel]
    """An instance of the options type that belongs to ``type``."""


class Settings(BaseSettings):
    """A whole configuration, valid and with all defaults, as ``config.load`` returns it."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    cluster: ClusterSettings = Field(description="The API server, and the bridge's credentials for it.")
    resources: tuple[ResourceEntry, ...] = Field(
        min_length=1,
        max_length=1000,
        description="Resources to watch: names, or mappings that restrict them. Two entries may not mean the same "
        "object: it would be exported twice, without an order.",
    )
    sinks: Mapping[str, SinkSettings] = Field(
        min_length=1,
        description="Destinations of the deltas: any number, each with a type, under a name of your choice. Logs and "
        "metrics show the name, and the state keeps the sink's cursor under it.",
    )
    state: StateSettings = Field(
        default=StateSettings(), description="The state directory, and how long its records stay."
    )
    shard: ShardSettings | None = Field(
        default=None,
        description="For a cluster with more changes than a process can carry: this bridge has a part of all objects, "
        "and other bridges have the others. Without it, the bridge has all objects.",
        examples=[{"of": 4, "by": "uid"}],
    )
    election: ElectionSettings = Field(
        default=ElectionSettings(),
        description="Several replicas, of which one delivers and the others wait with the same state. Off by default.",
    )
    latency: Annotated[Duration, Between(0, 1)] = Field(
        default=Duration(0.01),
        description="How long a change may wait for others, to be stored and delivered with them, which saves CPU;"
        " twice as long while changes keep coming. A change after a pause does not wait, nor do many at"
        " once. 0: none waits. More than the default saves CPU at 20 to 200 changes a second.",
        examples=["50ms"],
    )
    redaction: RedactionSettings = Field(
        default=RedactionSettings(),
        description="The values that must not leave: those of Secrets always; others by presets and rules.",
    )
    watch: WatchSettings = Field(
        default=WatchSettings(),
        description="How resources are listed and watched. The defaults are right for most clusters.",
    )
    telemetry: TelemetrySettings = Field(
        default=TelemetrySettings(), description="The HTTP server for machines, and the logs."
    )
    tracing: TracingSettings = Field(
        default=TracingSettings(), description="Traces of batches, by OpenTelemetry. Off by default."
    )
    page: PageSettings = Field(
        default=PageSettings(),
        description="A web page for people: the pipeline with its rates, dead letters, a live tail. Off by default.",
    )
    shutdown_grace_seconds: Duration = Field(
        default=Duration(20),
        description="Time for sinks to finish after SIGTERM. Keep it below the pod's terminationGracePeriodSeconds "
        "(30 by default), or the kubelet kills the bridge first.",
    )
