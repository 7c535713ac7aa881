"""The section ``page``: the web page for people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from pydantic import Field

from config.rules import Given, Rule, Ruled, needs
from config.schema.telemetry import ListenAddress
from config.values import Section

_LOCAL = r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\]):[0-9]+"
"""Addresses that only this machine reaches, for the loader and the schema alike. The server judges by itself."""


class ReachesBeyond(msgspec.Struct, frozen=True):
    """The address in the option ``name`` accepts connections from other machines."""

    name: str

    def holds(self, section: Any) -> bool:
        address = getattr(section, self.name)
        return address is not None and re.fullmatch(_LOCAL, str(address)) is None

    def as_json_schema(self) -> dict[str, Any]:
        beyond = {"type": "string", "not": {"pattern": f"^(?:{_LOCAL})$"}}
        return {"properties": {self.name: beyond}, "required": [self.name]}


class PageSettings(Ruled, Section):
    """The web page for people."""

    rules = (
        needs("token_file", "listen"),
        Rule(
            ReachesBeyond("listen"),
            Given("token_file"),
            "listen on an address that other machines reach needs token_file",
        ),
    )

    listen: ListenAddress | None = Field(
        default=None,
        description="host:port of the page. Without it, there is no page. An address that other machines reach, and a "
        "proxy on this one, need token_file. Port 0 takes a free one, which the log names.",
        examples=["127.0.0.1:8081"],
    )
    token_file: Path | None = Field(
        default=None,
        description="A file with a token of at least 16 characters. Who enters it on the page may look, retry dead"
        " letters, replay, and pause sinks; nobody else may look. Without it, the page changes nothing,"
        " and whoever reaches its address may look.",
        examples=["/run/secrets/page-token"],
    )
