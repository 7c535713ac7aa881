"""Redacts credentials in a decoded object. Pure. The slow way of ``presets``, for bodies in an unusual format."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any, Final

import msgspec

from bridge.model.policies import RedactionPreset as Preset
from bridge.transform.credentials import Digest, is_secret_name, redacted_arguments, redacted_variable

BOOTSTRAP_TOKEN: Final = re.compile("[a-z0-9]{6}\\.[a-z0-9]{16}")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def redacted_structure(body: bytes, presets: Set[Preset], digest: Digest) -> bytes:
    """The body decoded, redacted and encoded. Other values keep their meaning, and not always their spelling. Raises
    msgspec.DecodeError or RecursionError."""
    return _encode(_Redactor(presets, digest).redacted(_decode(body), ""))


class _Redactor:
    def __init__(self, presets: Set[Preset], digest: Digest) -> None:
        self._env = Preset.ENV in presets
        self._arguments = Preset.ARGUMENTS in presets
        self._tokens = Preset.BOOTSTRAP_TOKENS in presets
        self._digest = digest

    def redacted(self, value: Any, name: str) -> Any:
        """The value of a member of this name."""
        match value:
            case dict() if name == "env" and self._env:
                return {each: self._variable(each, inner) for each, inner in value.items()}
            case dict():
                return {each: self.redacted(inner, each) for each, inner in value.items()}
            case list() if name == "env" and self._env:
                return [self._env_item(each) for each in value]
            case list() if name in ("args", "command") and self._arguments:
                texts = iter(redacted_arguments([each for each in value if isinstance(each, str)], self._digest))
                return [next(texts) if isinstance(each, str) else self.redacted(each, "") for each in value]
            case list():
                return [self.redacted(each, "") for each in value]
            case str() if self._tokens and name.endswith("oken") and BOOTSTRAP_TOKEN.fullmatch(value):
                return self._digest("token", "", value)
        return value

    def _env_item(self, item: Any) -> Any:
        match item:
            case {"name": str(name), "value": value}:
                others = {each: self.redacted(inner, each) for each, inner in item.items() if each != "value"}
                return others | {"value": self._variable(name, value)}
            case str():  # NAME=value, as Docker writes variables.
                return redacted_arguments([item], self._digest)[0]
        return self.redacted(item, "")

    def _variable(self, name: str, value: Any) -> Any:
        match value:
            case str():
                return redacted_variable(name, value, self._digest)
            case bool() | None:
                return value
            case int() | float() if is_secret_name(name):
                return self._digest("env", name, _encode(value).decode())
        return self.redacted(value, name)
