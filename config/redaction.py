"""How values that must not leave are replaced."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from config.values import Section


class RedactionSettings(Section):
    """How the values of Secrets are replaced."""

    key_file: Path | None = Field(
        default=None,
        description="A file with the key of the digests that replace a Secret's values: 32 bytes at least, such as the "
        "output of `openssl rand -hex 32`. A digest changes when its value or the key does. Without the option the "
        "bridge makes a key of its own in state.directory; it is lost with that folder.",
        examples=["/run/secrets/redaction.key"],
    )
