"""What options are made of: the base of every section, and the types of numbers, sizes and durations."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field
from pydantic_core import CoreSchema, core_schema

_FACTORS = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)([smhd]?)")
_LONGEST = 36_500 * 86_400


class Section(BaseModel):
    """One section of the file. Unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _not_a_boolean(value: Any) -> Any:
    if isinstance(value, bool):  # Python would take true for 1
        raise ValueError("a number is expected")
    return value


Count: TypeAlias = Annotated[int, BeforeValidator(_not_a_boolean)]
Positive: TypeAlias = Annotated[int, Field(ge=1), BeforeValidator(_not_a_boolean)]
Seconds: TypeAlias = Annotated[float, BeforeValidator(_not_a_boolean), Field(allow_inf_nan=False)]
Size: TypeAlias = Annotated[ByteSize, BeforeValidator(_not_a_boolean)]
"""Bytes: a whole number, or with a unit such as 256MiB."""


def written_size(size: int) -> int | str:
    """``256MiB`` where that is exact, else the number."""
    for unit, factor in _FACTORS.items():
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return int(size)


class Duration(float):
    """Seconds. A file says ``90``, ``90s``, ``10m``, ``12h`` or ``7d``; so does ``str()``, to the millisecond."""

    __slots__ = ()

    def __str__(self) -> str:
        for unit, seconds in _SECONDS.items():
            if self and self % seconds == 0:
                return f"{self / seconds:.0f}{unit}"
        return f"{self:.3f}".rstrip("0").rstrip(".") + "s"

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_duration, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> dict[str, Any]:
        text = {"type": "string", "pattern": f"^{_DURATION.pattern}$"}
        return {"anyOf": [{"type": "number", "minimum": 0, "maximum": _LONGEST}, text]}


def _duration(value: Any) -> Duration:
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match:
        seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = value
    else:
        raise ValueError("a duration is expected: seconds, or a number with s, m, h or d, such as 90s, 10m, 12h, 7d")
    if not 0 <= seconds <= _LONGEST:
        raise ValueError("a duration from 0 to 36500d is expected")
    return Duration(seconds)
