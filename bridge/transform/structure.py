"""Redacts the credentials of the presets in a decoded object.

``transform`` finds them in the bytes of a body as Go writes it; this is its slow way, with the same result, for bodies
in an unusual format.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, NamedTuple

import msgspec

from bridge.model.policies import RedactionPreset as Preset
from bridge.transform.credentials import (
    Digest,
    Harmless,
    is_secret_name,
    redacted_arguments,
    redacted_setting,
    redacted_text,
    redacted_variable,
)
from bridge.transform.places import BOOTSTRAP_TOKEN, NAMED, PLACES, REFERRING, TOKEN_NAMES, VALUES, Reading

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class _Place(NamedTuple):
    """How a container is read."""

    reading: Reading | None = None
    variable: str = ""
    """It is the value of this variable, whose name is a credential's: every text in it is the credential."""
    is_item: bool = False
    """A map in a list. Its other members stand beside the name and the value of a variable."""


_ELSEWHERE = _Place()


def redacted_structure(body: bytes, presets: Set[Preset], digest: Digest) -> bytes:
    """The body decoded, redacted and encoded. Other values keep their meaning, and not always their spelling. Raises
    msgspec.DecodeError or RecursionError."""
    root = _decode(body)
    _Redactor(presets, digest).redact(root)
    return _encode(root)


class _Redactor:
    """Replaces credentials in place. Containers wait in a list, so that depth costs no recursion."""

    def __init__(self, presets: Set[Preset], digest: Digest) -> None:
        self._places = {name: reading for name, (preset, reading) in PLACES.items() if preset in presets}
        self._tokens = Preset.BOOTSTRAP_TOKENS in presets
        self._digest = digest
        self._waiting: list[tuple[Any, _Place]] = []

    def redact(self, root: Any) -> None:
        self._wait(root, _ELSEWHERE)
        while self._waiting:
            container, place = self._waiting.pop()
            if isinstance(container, dict):
                self._map(container, place)
            else:
                self._list(container, place)

    def _map(self, members: dict[str, Any], place: _Place) -> None:
        # Names of members are no names of variables within the value of one, nor outside of these places.
        named = None if place.reading is None or place.variable else _name_of(members)
        for name, value in members.items():
            if place.reading is None or (name in self._places and not place.variable):
                members[name] = self._elsewhere(name, value)
            elif name.endswith(REFERRING):
                members[name] = self._wait(value, _ELSEWHERE)
            elif named is not None and name in VALUES:
                members[name] = self._value(named, value)
            elif named is not None and place.is_item:
                members[name] = self._elsewhere(name, value)
            else:
                members[name] = self._value(place.variable or name, value)

    def _list(self, items: list[Any], place: _Place) -> None:
        if place.reading is Reading.ARGUMENTS:
            texts = iter(
                redacted_arguments([each for each in items if isinstance(each, str)], self._digest, Harmless())
            )
            items[:] = [next(texts) if isinstance(each, str) else each for each in items]
        for index, item in enumerate(items):
            if place.variable:
                items[index] = self._value(place.variable, item)
            elif isinstance(item, str) and place.reading is Reading.VARIABLES:
                items[index] = redacted_setting(item, self._digest)
            else:
                self._wait(item, place._replace(is_item=True))

    def _elsewhere(self, name: str, value: Any) -> Any:
        """The value of a member that is no variable, redacted; if it is a container, it waits."""
        reading = self._places.get(name)
        if not isinstance(value, str):
            return self._wait(value, _ELSEWHERE if reading is None else _Place(reading))
        if reading is not None:
            return redacted_text(value, self._digest, "args", name)
        is_token = self._tokens and name.endswith(TOKEN_NAMES) and BOOTSTRAP_TOKEN.fullmatch(value)
        return self._digest("token", "", value) if is_token else value

    def _value(self, name: str, value: Any) -> Any:
        """The value of a variable."""
        match value:
            case str():
                return redacted_variable(name, value, self._digest)
            case bool() | None:
                return value
            case int() | float():
                return self._digest("env", name, _encode(value).decode()) if is_secret_name(name) else value
        return self._wait(value, _Place(Reading.VARIABLES, name if is_secret_name(name) else ""))

    def _wait(self, value: Any, place: _Place) -> Any:
        if isinstance(value, dict | list):
            self._waiting.append((value, place))
        return value


def _name_of(item: dict[str, Any]) -> str | None:
    return next((item[each] for each in NAMED if isinstance(item.get(each), str)), None)
