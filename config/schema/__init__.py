"""The options of the file as frozen types: a module for each section.

Each option is documented where it is declared: ``config/reference.yaml`` and ``kubedelta schema`` are made from these
descriptions and from those in each sink's ``options.py``.

cluster     the API server, the credentials for it, and the election by a Lease on it; how resources are listed and
            watched, and the shard of the bridge
delivery    the objects and steps that a sink gets (no option of a sink yet); options that a sink of any type has
process     the state directory, and how long its records stay; the HTTP server for machines, the logs, and traces of
            batches; the web page for people
resources   the watched resources, by kubectl's names; values that must not leave: keys, presets, rules
settings    the whole file; the settings with the option types of the available sinks
shape       the types that the settings allow at a path of the file
"""

from config.schema.cluster import ClusterSettings, ElectionSettings, ShardSettings, WatchList, WatchSettings
from config.schema.delivery import DeliverySettings, MaxBacklogSettings
from config.schema.process import (
    Address,
    LogFormat,
    LogLevel,
    OnClusterChange,
    PageSettings,
    RetainSettings,
    StateSettings,
    TelemetrySettings,
    TracingSettings,
)
from config.schema.resources import RedactionSettings, ResourceSettings
from config.schema.settings import Settings, SinkOptionTypes, SinkSettings, settings_type

__all__ = [
    "Address",
    "ClusterSettings",
    "DeliverySettings",
    "ElectionSettings",
    "LogFormat",
    "LogLevel",
    "MaxBacklogSettings",
    "OnClusterChange",
    "PageSettings",
    "RedactionSettings",
    "ResourceSettings",
    "RetainSettings",
    "Settings",
    "ShardSettings",
    "SinkOptionTypes",
    "SinkSettings",
    "StateSettings",
    "TelemetrySettings",
    "TracingSettings",
    "WatchList",
    "WatchSettings",
    "settings_type",
]
