"""The sections ``watch`` and ``shard``: how resources are listed and watched, and which part of all objects."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.primitives.shard import MOST_SHARDS, ShardBy
from config.values import Between, Count, Duration, Section


class WatchList(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class RecoverStepsSettings(Section):
    """The bounds of the recovery of steps."""

    most_requests: Count = Field(
        default=2000,
        ge=2,
        le=1_000_000,
        description="Most requests after a list of a resource: one for each lost step and each changed object, some "
        "ten for each deleted object, and one that proves them.",
    )
    concurrency: Count = Field(
        default=4, ge=1, le=64, description="Requests at the same time, for all resources together."
    )


def _section_of(value: Any) -> Any:
    """``false`` turns the recovery off; ``true``, and a section without a line, leave its defaults."""
    if value is False:
        return None
    return {} if value is None or value is True else value


class WatchSettings(Section):
    """How resources are listed and watched. The defaults are right for most clusters."""

    silence_seconds: Annotated[Duration, Between(1)] = Field(
        default=Duration(90),
        description="After this time without a byte, a watch is closed and opened again at its position. The API"
        " server sends a bookmark every minute, so 90 leaves half a minute. Much less causes lists on a"
        " quiet cluster: a second idle timeout in a row leads to one.",
    )
    discovery_seconds: Annotated[Duration, Between(0.1)] = Field(
        default=Duration(10),
        description="Time between two discoveries of the served resources, by which the bridge notices custom "
        "resources that appear or go. An unchanged discovery costs the API server two answers without a body (304).",
    )
    page_size: Count = Field(
        default=500,
        ge=0,
        le=100_000,
        description="Objects in a page of a list (the default is client-go's); 0 for all objects in a single page.",
    )
    watch_list: WatchList = Field(
        default=WatchList.AUTO,
        description="auto: stream the first objects in a watch (sendInitialEvents), which costs the API server far "
        "less memory, and list where it does not support that. never: always list.",
    )
    recover_steps: Annotated[
        RecoverStepsSettings | None,
        BeforeValidator(_section_of, json_schema_input_type=RecoverStepsSettings | bool | None),
    ] = Field(
        default=RecoverStepsSettings(),
        description="After a watch that could not be resumed (the API server restarted, or the bridge was down for"
        " more than about 75 s), lost steps are looked for in etcd's history, by lists of single objects"
        " at exact versions, and exported with evidence recovered. What etcd has forgotten (after five"
        " to ten minutes) stays relisted. false: no such requests.",
    )


_NUMBERS = [1 << bits for bits in range(MOST_SHARDS.bit_length())]


def _power_of_two(of: int) -> int:
    if of not in _NUMBERS:
        raise ValueError(f"allowed: {', '.join(map(str, _NUMBERS))}")
    return of


class ShardSettings(Section):
    """The part of all objects that this bridge has."""

    of: Annotated[Count, AfterValidator(_power_of_two)] = Field(
        description="Number of shards, a power of two: as many bridges, with a state directory each, have all objects. "
        "1: this bridge has them all.",
        examples=[4],
        json_schema_extra={"enum": [*_NUMBERS]},
    )
    index: Count | None = Field(
        default=None,
        ge=0,
        lt=MOST_SHARDS,
        description="The shard of this bridge, from 0. By default the number at the end of the pod's name (POD_NAME, "
        "else the name of the host), modulo the number of shards: right for a StatefulSet.",
        examples=[2],
    )
    by: ShardBy = Field(
        default=ShardBy.UID,
        description="The field whose hash decides on the shard of an object. uid: even shards, but an object that"
        " is created again under its name may be in another shard, without an order between the two."
        " namespace: all records of a name have an order; all cluster-scoped objects are in a single"
        " shard.",
    )
