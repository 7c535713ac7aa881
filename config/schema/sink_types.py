"""The settings with the option types of the available sinks: each type validates the options of its sinks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, create_model

from config.schema.delivery import DeliverySettings
from config.schema.settings import Settings, SinkSettings
from config.values import Matching, Names

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
