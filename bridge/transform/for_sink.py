"""Redacts the records of one sink, beside the redaction that holds for every sink. Pure. Never raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bridge.model.object import bare_body
from bridge.model.policies import RedactionRule
from bridge.model.record import Delta, Record
from bridge.transform.effort import UNREDACTED, Effort
from bridge.transform.redaction import Redaction
from bridge.transform.rules import PathRules


def redact_for_sink(rules: Sequence[RedactionRule], redaction: Redaction) -> Callable[[Record], Record]:
    """A function from a record of the outbox to the record for the sink: both states of a delta are redacted by
    ``rules``, with the keys of ``redaction``. Notices stay. A state of an unexpected shape, or one that takes too much
    work, leaves bare."""
    paths = PathRules(rules)

    def state(delta: Delta, body: bytes) -> bytes:
        try:
            return paths.redacted(body, Effort(redaction, delta.resource, delta.key))
        except UNREDACTED:
            return bare_body(delta.resource, delta.key, delta.uid, delta.resource_version)

    def redact(record: Record) -> Record:
        if not isinstance(record, Delta):
            return record
        before = None if record.before is None else state(record, record.before)
        return msgspec.structs.replace(record, body=state(record, record.body), before=before)

    return redact
