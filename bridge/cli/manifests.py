"""Prints objects as YAML that kubectl reads as the same objects."""

from __future__ import annotations

import re
import secrets
from typing import Any

import msgspec
import yaml

from bridge.cli.terminal import DEEPEST, pretty
from bridge.history.bodies import decoded
from bridge.history.restore import RedactedValue
from bridge.model.primitives.printable import escaped

_STRING = "tag:yaml.org,2002:str"
_PLAIN = re.compile(r"(?![yYnN]\Z)[A-Za-z/]|[A-Za-z/][\w./-]++(?:[:=@, ][\w./-]++)*+", re.ASCII)
"""Texts without quotes. Kubernetes' reader takes ``1e3``, ``08`` and ``y`` for numbers and booleans; PyYAML does not,
and would write them without quotes."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> yaml.ScalarNode:
    style = None if _PLAIN.fullmatch(text) else "|" if "\n" in text else '"'
    node: yaml.ScalarNode = dumper.represent_scalar(_STRING, text, style=style)
    return node


_MARK = f"redacted-{secrets.token_hex(8)}-"  # No object has it.


def _marked(dumper: Any, value: RedactedValue) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar(_STRING, f"{_MARK}{value.text.encode().hex()}-")
    return node


_Dumper.add_representer(str, _text)
_Dumper.add_representer(RedactedValue, _marked)


def manifest_in(state: bytes) -> dict[str, Any] | None:
    """None for a state that is no object: the stream has none, or another program wrote it."""
    return decoded(state, dict[str, Any])


def state_as_yaml(state: bytes) -> str:
    """``as_yaml`` of a state; of one that is no object its text, escaped."""
    manifest = manifest_in(state)
    return escaped(state.decode(errors="replace")) if manifest is None else as_yaml(manifest)


def as_yaml(manifest: Any) -> str:
    """Without a newline at the end. A RedactedValue is a comment in its place. What should not reach a terminal is
    escaped, as YAML has it. A deeply nested object is JSON, which is YAML too: indented, it would have no bound."""
    if _is_deeper(manifest, DEEPEST):
        return pretty(msgspec.json.encode(manifest, enc_hook=lambda _: None).decode())
    text = _dumped(manifest, allow_unicode=True)
    if escaped(text, keep="\n") != text:
        text = _dumped(manifest, allow_unicode=False)
    return re.sub(f"{_MARK}([0-9a-f]*+)-", _comment, text)


def _comment(mark: re.Match[str]) -> str:
    return f"# redacted: {escaped(bytes.fromhex(mark[1]).decode())}"


def _dumped(manifest: Any, *, allow_unicode: bool) -> str:
    text = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=2**31 - 1)
    # Behind a text with several newlines at its end there is an end of the document, which would end a list of objects.
    return str(text).rstrip("\n").removesuffix("\n...")


def _is_deeper(value: Any, levels: int) -> bool:
    inside = [value]
    for _ in range(levels):
        found = (each.values() if isinstance(each, dict) else each for each in inside if isinstance(each, dict | list))
        inside = [inner for each in found for inner in each]
    return any(isinstance(each, dict | list) for each in inside)
