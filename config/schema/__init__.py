"""The options of the file as frozen types: a module for each section.

Each option is documented where it is declared: ``config/reference.yaml`` and ``kubedelta schema`` are made from these
descriptions and from those in each sink's ``options.py``.

settings     the whole file
cluster      the API server, the credentials for it, and the election by a Lease on it
resources    the watched resources, by kubectl's names
selection    the objects and steps that a sink gets (no option of a sink yet)
sink_types   the settings with the option types of the available sinks
delivery     options that a sink of any type has
state        the state directory, and how long its records stay
redaction    values that must not leave: keys, presets, rules
watch        how resources are listed and watched, and the shard of the bridge
telemetry    the HTTP server for machines, the logs, and traces of batches
page         the web page for people
shape        the types that the settings allow at a path of the file
"""

from config.schema.cluster import ClusterSettings, ElectionSettings
from config.schema.delivery import DeliverySettings, MaxBacklogSettings
from config.schema.page import PageSettings
from config.schema.redaction import RedactionSettings
from config.schema.resources import ResourceSettings
from config.schema.settings import Settings, SinkSettings
from config.schema.sink_types import SinkOptionTypes, settings_type
from config.schema.state import OnClusterChange, RetainSettings, StateSettings
from config.schema.telemetry import Address, LogFormat, LogLevel, TelemetrySettings, TracingSettings
from config.schema.watch import ShardSettings, WatchList, WatchSettings

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
