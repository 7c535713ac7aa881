"""Options that sinks have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from bridge.model.formats.cloudevent import CloudEvents, DeltaForm
from bridge.model.formats.envelope import Envelopes
from bridge.model.formats.raw import RawObjects
from bridge.model.formats.row import RowObject, Rows
from config.rules import Given, Is, Rule, check
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
    ROW = "row"
    RAW = "raw"

    @property
    def has_notices(self) -> bool:
        """Whether notices stand among the records of objects. Readers of the other formats expect objects alone."""
        return self is Format.CLOUDEVENTS


OBJECTS_ALONE = tuple(form.value for form in Format if not form.has_notices)


class RowSettings(BaseModel):
    """The columns of a row that are not the same for every reader."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    object: RowObject = Field(
        default=RowObject.JSON,
        description="The column object, with the state after the change. json: a JSON object. string: a text with JSON"
        " in it, for engines without nested columns. none: no such column.",
    )


class EventOptions(SinkOptions):
    """For sinks that send the events of the bridge: the form of the events."""

    format: Format = Field(
        default=Format.CLOUDEVENTS,
        description="cloudevents: the object after the change as the data of a CloudEvent. envelope: the form of change"
        ' data capture, {"op","before","after","source","ts_ms"}, in the words of Debezium. row: a flat JSON object for'
        " tables that keep the newest row of each object. raw: the object alone.",
    )
    before: Flag = Field(
        default=False,
        description="With format envelope or row: also send the object before the change, where that is known. Off"
        " because the events become twice as large.",
    )
    patch: Flag = Field(
        default=False,
        description="With format envelope: add a JSON merge patch (RFC 7386) from before to after. Off because both"
        " states must be decoded for it.",
    )
    row: RowSettings | None = Field(
        default=None, description="With format row: the columns.", examples=[{"object": "string"}]
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            Is("before", True),
            Is("format", Format.ENVELOPE.value, Format.ROW.value),
            "before is a member of envelopes and rows: set format: envelope or format: row, or leave it out",
        ),
        Rule(
            Is("patch", True),
            Is("format", Format.ENVELOPE.value),
            "patch is a member of the envelope: set format: envelope, or leave it out",
        ),
        Rule(Given("row"), Is("format", Format.ROW.value), "row has no effect without format: row"),
    )

    def events(self, cluster: str) -> CloudEvents:
        """Returns the encoder for the format of these options."""
        return CloudEvents(cluster, self.form(cluster))

    def form(self, cluster: str) -> DeltaForm | None:
        """The form of objects; None for CloudEvents whose data is the object."""
        match self.format:
            case Format.CLOUDEVENTS:
                return None
            case Format.ENVELOPE:
                return Envelopes(cluster, before=self.before, patch=self.patch)
            case Format.ROW:
                return Rows(cluster, state=self.row_object, before=self.before)
            case Format.RAW:
                return RawObjects()

    @property
    def row_object(self) -> RowObject:
        return RowObject.JSON if self.row is None else self.row.object
