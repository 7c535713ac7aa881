"""The whole file as one frozen type: ``Settings``, and ``settings_type``, which gives it the option types of the
available sinks, so that each type validates the options of its sinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, SerializeAsAny, create_model
from pydantic_settings import BaseSettings, SettingsConfigDict

from config.schema.cluster import ClusterSettings, ElectionSettings, ShardSettings, WatchSettings
from config.schema.delivery import DeliverySettings
from config.schema.process import PageSettings, StateSettings, TelemetrySettings, TracingSettings
from config.schema.resources import RedactionSettings, ResourceEntry
from config.values import Between, Duration, Matching, Names


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
        "object.",
    )
    sinks: Mapping[str, SinkSettings] = Field(
        min_length=1,
        description="Destinations: any number, each with a type, under a name of your choice, under which the state "
        "keeps its cursor.",
    )
    state: StateSettings = Field(
        default=StateSettings(), description="The state directory, and how long its records stay."
    )
    shard: ShardSettings | None = Field(
        default=None,
        description="For more changes than a process can carry: this bridge has a part of all objects, and other "
        "bridges have the others.",
        examples=[{"of": 4, "by": "uid"}],
    )
    election: ElectionSettings = Field(
        default=ElectionSettings(),
        description="Several replicas, of which one delivers. Off by default.",
    )
    latency: Annotated[Duration, Between(0, 1)] = Field(
        default=Duration(0.01),
        description="How long a change may wait, to be stored and delivered with others, which saves CPU; twice as "
        "long while changes keep coming. A change after a pause does not wait. 0: none waits.",
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
        description="Time for sinks to finish after SIGTERM. Keep it below the pod's terminationGracePeriodSeconds.",
    )


SinkOptionTypes: TypeAlias = Mapping[str, type[BaseModel]]
"""A sink's ``type`` → its options."""

_NAME = Matching(
    "(?!.*__)[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?",
    "a sink's name is up to 63 lower-case letters, digits, '-' and '_' (no two of these together)",
    longest=63,
)


def settings_type(sink_options: SinkOptionTypes) -> type[Settings]:
    """Settings whose ``sinks`` allow exactly these types. Raises TypeError for an option with the name of a common
    option (DeliverySettings)."""
    return _settings_type(tuple(sink_options.items()))


@cache  # Making the type takes longer than reading a file with it.
def _settings_type(types: tuple[tuple[str, type[BaseModel]], ...]) -> type[Settings]:
    sink_options = dict(types)
    forms = {name: _form(name, options) for name, options in types}

    def settled(written: dict[str, BaseModel]) -> dict[str, SinkSettings]:
        return {name: _settled(form, sink_options) for name, form in written.items()}

    one: Any = reduce(or_, forms.values())
    if len(forms) > 1:
        one = Annotated[one, Field(discriminator="type")]
    sinks: Any = Annotated[dict[str, one], Names(_NAME), AfterValidator(settled)]
    field = Field(min_length=1, description=Settings.model_fields["sinks"].description)
    return create_model("Settings", __base__=Settings, sinks=(sinks, field))


def _form(name: str, options: type[BaseModel]) -> type[BaseModel]:
    """The form of a sink of this type in the file: its own options beside the common options."""
    clash = options.model_fields.keys() & {"type", *DeliverySettings.model_fields}
    if clash:
        raise TypeError(f"sink type {name}: the bridge has options of these names already: {', '.join(sorted(clash))}")
    tag: Any = (Literal[name], Field(description="The kind of destination."))
    return create_model(name, __base__=(options, DeliverySettings), __doc__=options.__doc__, type=tag)


def _settled(form: BaseModel, sink_options: SinkOptionTypes) -> SinkSettings:
    values = {name: getattr(form, name) for name in type(form).model_fields}
    common = {name: values[name] for name in ("type", *DeliverySettings.model_fields)}
    options = sink_options[values["type"]]
    own = {name: values[name] for name in options.model_fields}
    # The values were validated as a part of the form.
    return SinkSettings(**common, options=options.model_construct(form.model_fields_set & own.keys(), **own))
