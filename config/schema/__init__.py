"""The options of the file as frozen types: a module for each group of sections, and ``Settings`` for the whole file.

Each option is documented where it is declared: ``config/reference.yaml`` and ``kubedelta schema`` are made from these
descriptions and from those in each sink's ``options.py``. ``settings_type`` joins the sections with the options of the
sinks that are available.

cluster     the API server and its credentials, the election, how resources are watched, the shard
delivery    which objects and steps a sink gets, and the options that a sink of any type has
process     the state directory, telemetry, traces, and the web page
resources   the watched resources, and values that must not leave
settings    the whole file, with the option types of the available sinks
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
