"""The keys, presets and rules of redaction. Pure."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable

import msgspec

from bridge.model.policies import RedactionPreset, RedactionRule
from bridge.transform.redaction_key import DIGEST, RedactionKey

_DIGESTS = re.compile(rf"{DIGEST}(?: {DIGEST})*")
_BASE64 = "aG1hYy1zaGEyNTY6"
"""``hmac-sha256:`` in base64, as digests stand in the data of a Secret."""


class Redaction(msgspec.Struct, frozen=True):
    """What a transform redacts, and with which keys."""

    keys: tuple[RedactionKey, ...]
    """At least one. The first signs; the others are former keys."""
    presets: frozenset[RedactionPreset] = frozenset(RedactionPreset)
    rules: tuple[RedactionRule, ...] = ()

    def digest(self, *parts: bytes) -> str:
        """The digest of the parts under each key, the signing key first, with a blank in between. While a former key is
        known, a reader can compare a value with an older digest of it."""
        return self.starting_with()(*parts)

    def starting_with(self, *parts: bytes) -> Callable[..., str]:
        """``digest`` over these parts and those that it is called with: the former are hashed once for many values."""
        first, *former = [key.starting_with(*parts) for key in self.keys]
        return first if not former else lambda *rest: " ".join(digest(*rest) for digest in (first, *former))

    def extended(self, rules: Iterable[RedactionRule]) -> Redaction:
        return msgspec.structs.replace(self, rules=(*self.rules, *rules))


def is_digest(text: str) -> bool:
    """Whether redaction made this text. A digest is not digested again."""
    if text.startswith(_BASE64):
        try:
            text = b64decode(text, validate=True).decode("ascii")
        except ValueError:
            return False
    return _DIGESTS.fullmatch(text) is not None
