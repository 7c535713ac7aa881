"""Records as a sink gets them: selected, redacted by its rules, and chosen by a viewer."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridge.model.record import Delta, Record

MOST_BODY = 4096
"""Bytes of an object that a line of the tail has."""

Form = Callable[[Record], Record | None]
"""A record of the log → the record as a sink gets it; None if the sink does not get it."""


class TailChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A viewer's choice of records. Empty texts choose all. Raises no error: an unknown sink has no records."""

    sink: str
    resource: str = ""
    """A part of kubectl's name."""
    namespace: str = ""
    """The whole namespace."""
    name: str = ""
    """A part of the object's name."""

    def takes(self, delta: Delta) -> bool:
        namespace, _, name = delta.key.rpartition("/")
        return (
            (not self.namespace or namespace == self.namespace)
            and self.name in name
            and self.resource in delta.resource.name
        )


class TailLine(msgspec.Struct, frozen=True):
    """A record on the page."""

    sequence: int
    time: str
    op: str
    evidence: str
    resource: str
    namespace: str
    name: str
    version: str
    bytes: int
    """Of the whole object."""
    body: str
    """The first bytes of the object's JSON."""


def line_of(delta: Delta) -> bytes:
    """The record as JSON."""
    namespace, _, name = delta.key.rpartition("/")
    return msgspec.json.encode(
        TailLine(
            sequence=delta.sequence,
            time=delta.time,
            op=delta.op,
            evidence=delta.evidence,
            resource=delta.resource.name,
            namespace=namespace,
            name=name,
            version=delta.resource_version,
            bytes=len(delta.body),
            body=delta.body[:MOST_BODY].decode(errors="replace"),
        )
    )
