"""Redacts the records of one sink, beside the redaction that holds for every sink. Pure. Never raises.

Whoever may write objects decides what redaction meets. So what it raises is no failure of the bridge, but the reason
for which that record alone is rejected: it stands in the record's content, and only the object's identity is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bridge.model.formats.content import Content
from bridge.model.object import bare_body
from bridge.model.policies import RedactionRule
from bridge.model.record import Delta, Record
from bridge.transform.effort import UNREDACTED, Effort, why_bare
from bridge.transform.redaction import Redaction
from bridge.transform.rules import PathRules


def redact_for_sink(rules: Sequence[RedactionRule], redaction: Redaction) -> Callable[[Record], Record]:
    """A function from a record of the outbox to the record for the sink: both states of a delta are redacted by
    ``rules``, with the keys of ``redaction``. Notices stay. A delta that cannot be redacted, or only with too much
    work, is ``unfit``, and bare."""
    paths = PathRules(rules)

    def state(delta: Delta, body: bytes) -> bytes:
        return paths.redacted(body, Effort(redaction, delta.resource, delta.key))

    def redact(record: Record) -> Record:
        if not isinstance(record, Delta):
            return record
        try:
            before = None if record.before is None else state(record, record.before)
            return msgspec.structs.replace(record, body=state(record, record.body), before=before)
        except Exception as error:
            # The error's own text may have values of the object.
            why = why_bare(error) if isinstance(error, UNREDACTED) else f"redaction fails: {type(error).__name__}"
        bare = bare_body(record.resource, record.key, record.uid, record.resource_version)
        failed = Content(failure=f"redact: {why}; a retry delivers the identity of the object alone")
        return msgspec.structs.replace(record, body=bare, before=None, content=failed)

    return redact
