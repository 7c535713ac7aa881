"""Options that sinks have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from bridge.model.formats.cloudevent import CloudEvents
from bridge.model.formats.envelope import Envelopes
from config.rules import Is, Rule, check
from config.values import Flag


class SinkOptions(BaseModel):
    """The options of a sink. Each type of sink has its own subclass; unknown fields are errors.

    The description of a field says the meaning, the unit, and the reason for the default: config/reference.yaml and the
    JSON Schema are made of the descriptions.
    """

    # A value written by mistake may be a secret, and errors are logged: they must not repeat the input.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    rules: ClassVar[tuple[Rule, ...]] = ()
    """Conditions between these options. A subclass adds its own to the rules of its base."""

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        check(self, self.rules)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        if cls.rules:
            handler.resolve_ref_schema(found)["allOf"] = [rule.as_json_schema() for rule in cls.rules]
        return found

    def clear_text(self) -> str | None:
        """A sentence for the operator that names the credentials which these options send unencrypted over a network;
        None if there are none. ``run`` logs the sentence as a warning, ``check`` prints it."""
        return None


class Format(StrEnum):
    """The form in which a change of an object is sent."""

    CLOUDEVENTS = "cloudevents"
    ENVELOPE = "envelope"


class EventOptions(SinkOptions):
    """For sinks that send the events of the bridge: the form of the events."""

    format: Format = Field(
        default=Format.CLOUDEVENTS,
        description="cloudevents: the object after the change as the data of a CloudEvent. envelope: the form of change"
        ' data capture, {"op","before","after","source","ts_ms"}, in the words of Debezium.',
    )
    before: Flag = Field(
        default=False,
        description="With format envelope: also send the object before the change, where that is known. Off because the"
        " events become twice as large.",
    )
    patch: Flag = Field(
        default=False,
        description="With format envelope: add a JSON merge patch (RFC 7386) from before to after. Off because both"
        " states must be decoded for it.",
    )

    rules = tuple(
        Rule(
            Is(name, True),
            Is("format", Format.ENVELOPE.value),
            "before and patch are members of the envelope: set format: envelope, or leave them out",
        )
        for name in ("before", "patch")
    )

    def events(self, cluster: str) -> CloudEvents:
        """Returns the encoder for the format of these options."""
        if self.format is Format.CLOUDEVENTS:
            return CloudEvents(cluster)
        return CloudEvents(cluster, Envelopes(cluster, before=self.before, patch=self.patch))
