"""The section ``redaction``: how the values of Secrets are replaced."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from config.values import Section


class RedactionSettings(Section):
    """How the values of Secrets are replaced."""

    key_file: Path | None = Field(
        default=None,
        description="A file with the key of the digests that replace a Secret's values: 32 bytes at least, such as the "
        "output of `openssl rand -hex 32`. A digest changes with its value and with the key. Without the option, the "
        "bridge creates a key in state.directory, which is lost with that directory.",
        examples=["/run/secrets/redaction.key"],
    )
