"""Options that sinks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from bridge.model.formats.cloudevent import CloudEvents, DeltaForm, MadeData, RawObjects
from bridge.model.formats.content import ContentRequest, Include, Makes, OptionExpression
from bridge.model.formats.envelope import Envelopes
from bridge.model.formats.row import RowObject, Rows
from bridge.model.primitives.shard import Shard, ShardBy
from config.rules import Given, Is, Rule, Ruled
from config.values import Expression, Section
from sinks.receipt import WrongOption


class SinkOptions(Ruled):
    """The options of a sink. Each type of sink has its own subclass; unknown fields are errors.

    The description of a field says the meaning, the unit, and the reason for the default: config/reference.yaml and the
    JSON Schema are made of the descriptions.
    """

    def caution(self) -> str | None:
        """A sentence for the operator that names a promise of the bridge which these options give up; None if they keep
        all. ``run`` logs the sentence as a warning, ``check`` prints it."""
        return None

    def clear_text(self) -> str | None:
        """A sentence for the operator that names the credentials which these options send unencrypted over a network;
        None if there are none. ``run`` logs the sentence as a warning, ``check`` prints it."""
        return None

    def against_shards(self, shard: Shard) -> Sequence[WrongOption]:
        """Options that do not go together with several bridges that write to the same destination, each with a shard of
        the objects: the bridge does not start with them."""
        return ()

    def content(self) -> ContentRequest:
        """The content that these options ask for. The bridge compiles its expressions at the start, and makes the
        content of each record before ``deliver``: see ``Delta.made``."""
        return ContentRequest()


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


NAMES_NEED_ORDER = (
    "its consumers keep the newest record of each name, and with shard.by uid the records of a name may come from two "
    "bridges without an order: set shard.by to namespace, or leave it out"
)
"""The reason against options whose destination has an entry for each name."""
OBJECTS_ALONE = tuple(form.value for form in Format if not form.has_notices)


def _each_once(include: tuple[Include, ...]) -> tuple[Include, ...]:
    if len(set(include)) < len(include):
        raise ValueError("each member may be named once")
    return include


class RowSettings(Section):
    """The columns of a row that are not the same for every reader."""

    object: RowObject = Field(
        default=RowObject.JSON,
        description="The column object, with the state after the change. json: a JSON object. string: JSON as a text, "
        "for engines without nested columns. none: no such column.",
    )


class EventOptions(SinkOptions):
    """For sinks that send the events of the bridge: the form of the events."""

    format: Format = Field(
        default=Format.CLOUDEVENTS,
        description="cloudevents: the object after the change as the data of a CloudEvent. envelope: the form of "
        "Debezium's change events. row: a flat JSON object, for tables with the newest row of each object. raw: the "
        "object alone.",
    )
    include: Annotated[tuple[Include, ...], AfterValidator(_each_once), Field(min_length=1)] | None = Field(
        default=None,
        json_schema_extra={"uniqueItems": True},
        description="With format envelope or row: further members or columns. before: the object before the change. "
        "patch: a JSON Merge Patch. json_patch: a JSON Patch. changed: the paths that differ. managers: the field "
        "managers that changed something.",
        examples=[["before", "changed"]],
    )
    row: RowSettings | None = Field(
        default=None, description="With format row: the columns.", examples=[{"object": "string"}]
    )
    data: Expression | None = Field(
        default=None,
        description="A CEL expression that makes the data of an object's event, with format raw the whole message "
        "(docs/sinks/data.md). A record on which it fails becomes a dead letter. It needs kubedelta[cel].",
        examples=["{'text': object.metadata.name + ' was ' + op}"],
    )

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            Given("include"),
            Is("format", Format.ENVELOPE.value, Format.ROW.value),
            "include belongs to envelopes and rows: set format: envelope or format: row, or leave it out",
        ),
        Rule(Given("row"), Is("format", Format.ROW.value), "row has no effect without format: row"),
        Rule(
            Given("data"),
            Is("format", Format.CLOUDEVENTS.value, Format.RAW.value, default=True),
            "data makes the whole data of an event: set format: cloudevents or format: raw, or leave it out",
        ),
    )

    def content(self) -> ContentRequest:
        return ContentRequest(tuple(self.expressions()), frozenset(self.include or ()))

    def expressions(self) -> Iterator[OptionExpression]:
        """A subclass adds those of its own options."""
        if self.data is not None:
            yield OptionExpression("data", self.data, Makes.DATA)

    def against_shards(self, shard: Shard) -> Sequence[WrongOption]:
        if self.format is Format.ROW and shard.by is ShardBy.UID:
            return [WrongOption("format", NAMES_NEED_ORDER)]
        return ()

    def events(self, cluster: str) -> CloudEvents:
        """Returns the encoder for the format of these options."""
        return CloudEvents(cluster, self.form(cluster), has_notices=self.format.has_notices)

    def form(self, cluster: str) -> DeltaForm | None:
        """The form of objects; None for CloudEvents whose data is the object."""
        if self.data is not None:
            return MadeData()
        match self.format:
            case Format.CLOUDEVENTS:
                return None
            case Format.ENVELOPE:
                return Envelopes(cluster, include=self.include or ())
            case Format.ROW:
                return Rows(cluster, state=self.row_object, include=self.include or ())
            case Format.RAW:
                return RawObjects()

    @property
    def row_object(self) -> RowObject:
        return RowObject.JSON if self.row is None else self.row.object
