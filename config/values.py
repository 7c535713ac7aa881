"""The types of options: numbers, durations, sizes, texts and paths; and the base of every section.

Each type is declared once, for the loader, which validates a value with it, and for the JSON Schema, which has its
bounds and its pattern.

Validators beside a hand-written schema disagreed in both directions, and JSON Schema alone as the judge has no messages
for an operator. So types here, and rules between options (``config.rules``), do both, for sinks too. Rules that only
code can express are exceptions; ``test_schema_and_loader`` names all of them.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

# [0-9] and not \d: in Python \d matches digits of every alphabet, in ECMA 262 only these.
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_DURATION = rf"({_NUMBER})(ms|[smhd])?"
_LONGEST = 36_500 * 86_400
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = rf"({_NUMBER}) ?(?:([kKMGT])(i)?)?B?"
_SHOWN = {"GiB": 1024**3, "MiB": 1024**2, "KiB": 1024}
_LARGEST = 2**63 - 1

PORT = "(?:6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
"""A regular expression that matches 1 to 65535."""
HOST = r"(?:\[[0-9A-Fa-f:.]+\]|[^\x00-\x20\x7f/?#@:\[\]{}]+)"
"""A regular expression for the host of a URL."""


class Section(BaseModel):
    """One section of the file. Unknown fields are errors."""

    # A value written by mistake may be a secret, and errors are logged: they must not repeat the input.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


# ── Numbers ──────────────────────────────────────────────────────────────────


def _whole(value: Any) -> Any:
    if isinstance(value, bool | str):  # Python takes true for 1; pydantic would read the text "1" as a number.
        raise ValueError("a whole number is expected")  # pydantic reports ValueErrors alone
    return value


Count: TypeAlias = Annotated[int, BeforeValidator(_whole)]
Positive: TypeAlias = Annotated[int, Field(ge=1), BeforeValidator(_whole)]
Flag: TypeAlias = Annotated[bool, Strict()]


# ── Durations and sizes ──────────────────────────────────────────────────────


class Duration(float):
    """Seconds. Written as ``90``, ``90s``, ``500ms``, ``10m``, ``12h`` or ``7d``; ``str()`` writes them so too, to the
    millisecond."""

    __slots__ = ()
    pattern: ClassVar[str] = _DURATION
    wanted: ClassVar[str] = (
        "a duration is expected: seconds, or a number with ms, s, m, h or d, such as 90s, 10m, 12h, 7d"
    )

    def __str__(self) -> str:
        for unit, seconds in _SECONDS.items():
            if seconds >= 1 and self and self % seconds == 0:
                return f"{self / seconds:.0f}{unit}"
        if 0 < self < 1 and (milliseconds := round(self * 1000, 3)).is_integer():
            return f"{milliseconds:.0f}ms"
        return f"{self:.3f}".rstrip("0").rstrip(".") + "s"

    @classmethod
    def read(cls, value: Any) -> Duration:
        """Raises ValueError with the allowed form."""
        seconds: float = _read(cls, value, lambda number, unit: number * _SECONDS[unit or "s"])
        if not 0 <= seconds <= _LONGEST:
            raise ValueError("a duration from 0 to 36500d is expected")
        return cls(seconds)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.read, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> JsonSchemaValue:
        return _number_or_text("number", _LONGEST, cls.pattern)


class Size(int):
    """Bytes. Written as ``1048576``, ``1024KiB``, ``1MiB``, ``1Mi`` or ``1.5 GB``: units with ``i`` are powers of 1024,
    units without it powers of 1000."""

    __slots__ = ()
    pattern: ClassVar[str] = _SIZE
    wanted: ClassVar[str] = "a number of bytes is expected, or one with a unit, such as 256MiB"

    @classmethod
    def read(cls, value: Any) -> Size:
        """Raises ValueError with the allowed form."""

        def scaled(number: float, unit: str, binary: str = "") -> float:
            return number * float((1024 if binary else 1000) ** _POWERS[unit.lower()])

        size: float = _read(cls, value, scaled)
        if not 0 <= size <= _LARGEST:
            raise ValueError("a number of bytes from 0 to 2^63 - 1 is expected")
        return cls(size)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(written_size)
        return core_schema.no_info_plain_validator_function(cls.read, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: Any) -> JsonSchemaValue:
        return _number_or_text("integer", _LARGEST, cls.pattern)


def _read(kind: type[Duration] | type[Size], value: Any, scaled: Callable[..., float]) -> float:
    """Reads a number without a unit, or a text with a unit."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and (kind is Duration or value.is_integer()):
        return value
    match = re.fullmatch(kind.pattern, value) if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None
    if match is None:
        raise ValueError(kind.wanted)
    return scaled(float(match[1]), *(each or "" for each in match.groups()[1:]))


def _number_or_text(number: str, most: int, pattern: str) -> JsonSchemaValue:
    text = {"type": "string", "pattern": f"^{pattern}$", "maxLength": _LONGEST_TEXT}
    return {"anyOf": [{"type": number, "minimum": 0, "maximum": most}, text]}


def written_size(size: int) -> int | str:
    """``256MiB`` if that is exact, else the number of bytes."""
    for unit, factor in _SHOWN.items():
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return int(size)


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds a Duration (seconds) or a Size (bytes), inclusively. The JSON Schema bounds plain numbers alone: of
    ``90s`` a schema can only check the form."""

    least: float = 0
    most: float | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        number = found["anyOf"][0] | {"minimum": self.least}
        if self.most is not None:
            number["maximum"] = self.most
        return {"anyOf": [number, *found["anyOf"][1:]]}

    def _checked(self, value: Duration | Size) -> Duration | Size:
        if value < self.least:
            raise ValueError(f"at least {_shown(value, self.least)} is expected")
        if self.most is not None and value > self.most:
            raise ValueError(f"at most {_shown(value, self.most)} is expected")
        return value


def _shown(like: Duration | Size, bound: float) -> int | str:
    return written_size(int(bound)) if isinstance(like, Size) else str(Duration(bound))


# ── Texts ────────────────────────────────────────────────────────────────────

_LONGEST_TEXT = 4096
"""Characters. Matching a pattern may take time that grows with the square of the length."""


Expression: TypeAlias = Annotated[str, Field(min_length=1, max_length=4096)]
"""An expression of CEL. The bridge compiles it; here is only its length."""

LONGEST_PATH = 4095
PATH = r"/*(?:[^\x00/]{1,255}(?:/+[^\x00/]{1,255})*/*)?"
"""A regular expression for a path. It counts characters; ``why_no_path`` counts bytes, so fewer non-ASCII letters
fit."""


def why_no_path(path: Path) -> str:
    """The reason why this path cannot exist on any machine; empty if it can."""
    try:
        text = os.fsencode(path)
    except UnicodeEncodeError:
        return "no path can have half of a surrogate pair in it"
    if b"\0" in text or len(text) > LONGEST_PATH or any(len(part) > 255 for part in text.split(b"/")):
        return f"a path has at most {LONGEST_PATH} bytes, 255 between two slashes, and no NUL"
    return ""


CaFile: TypeAlias = Annotated[
    Path | None,
    Field(
        description="Certificates (PEM) of the authorities to trust, in place of the system's.",
        examples=["/run/secrets/ca.crt"],
    ),
]
CertFile: TypeAlias = Annotated[
    Path | None, Field(description="The certificate (PEM) to show to the server.", examples=["/run/secrets/tls.crt"])
]
KeyFile: TypeAlias = Annotated[
    Path | None,
    Field(
        description="The private key (PEM) of cert_file, if that file does not hold it.",
        examples=["/run/secrets/tls.key"],
    ),
]


def each_once(what: str) -> AfterValidator:
    """For a list: no item may be in it twice. ``what``: an item, in the message."""

    def checked(items: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted(item for item, count in Counter(items).items() if count > 1):
            raise ValueError(f"each {what} may be named once; named twice: {', '.join(twice)}")
        return items

    return AfterValidator(checked)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Matching:
    """Restricts a text to full matches of a regular expression. The expression must mean the same in ECMA 262 (for the
    JSON Schema) and in Python: so without named groups, flags, ``\\w`` and ``\\s``."""

    pattern: str
    wanted: str | Callable[[str], str]
    """The error: the expected form, or a function from the found text to it."""
    longest: int = _LONGEST_TEXT

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), **self.as_json_schema()}

    def as_json_schema(self) -> JsonSchemaValue:
        return {"type": "string", "pattern": f"^(?:{self.pattern})$", "maxLength": self.longest}

    def checked(self, value: T) -> T:
        """Returns ``value`` (a text or a Path) unchanged. Raises ValueError."""
        text = str(value)
        if len(text) > self.longest or not re.fullmatch(self.pattern, text):
            wanted = self.wanted if isinstance(self.wanted, str) else self.wanted(text)
            raise ValueError(wanted if len(text) <= self.longest else f"{wanted}; at most {self.longest} characters")
        return value


@dataclass(frozen=True, slots=True)
class Names:
    """Restricts the names in a mapping to matches."""

    matching: Matching

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        mapping = handler(source)
        keys = mapping.get("keys_schema", core_schema.str_schema())
        return {**mapping, "keys_schema": core_schema.no_info_after_validator_function(self.matching.checked, keys)}

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "propertyNames": self.matching.as_json_schema()}
