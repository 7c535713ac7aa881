"""The section ``watch``: how resources are listed and watched."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from config.values import Between, Count, Duration, Section


class WatchList(StrEnum):
    AUTO = "auto"
    NEVER = "never"


class WatchSettings(Section):
    """How resources are listed and watched. The defaults are right for most clusters."""

    silence_seconds: Annotated[Duration, Between(1)] = Field(
        default=Duration(90),
        description="Idle timeout of a watch: after this time without a byte, the watch is closed and opened again at "
        "its last position, without a list. The API server sends a bookmark every minute, so 90 leaves it half a "
        "minute. Much less causes lists on a quiet cluster, because a second idle timeout in a row leads to a list.",
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
