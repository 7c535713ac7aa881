"""What the redaction of one object may cost. Pure.

Redaction runs between two changes, so one object must not hold up the others for long. Its work is counted, in place of
a clock, so an object leaves alike on every machine and at every start. All of it is linear, and the largest objects
that etcd takes by default stay within the bound, unless a rule leads to some hundred thousand values in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction

MOST_WORK: Final = 3 << 19
"""Bytes of text that are searched for credentials, in an object; etcd takes requests of as many. The worst text takes
about half a second."""
_PER_DIGEST: Final = 16
"""A digest counts as much as this many bytes of searched text, for each key."""
_HASHED: Final = 256
"""So many bytes that are hashed, or copied, count as a searched one."""


class TooCostly(Exception):
    """Redaction of the object takes more than ``MOST_WORK``; it must not be exported."""


UNREDACTED: Final = (TooCostly, msgspec.MsgspecError, UnicodeError, RecursionError, KeyError)
"""The errors of redaction. The object must not be exported then, but its identity alone."""


def why_bare(error: BaseException) -> str:
    """The reason, for the operator."""
    if isinstance(error, TooCostly):
        return "its redaction would take too long: too much text in env, args and command, or too many redacted values"
    return "redaction cannot read it: it has not the shape of its kind, or is nested too deeply"


class Effort(msgspec.Struct, gc=False):
    """The digests of an object, and the work that is left for its redaction. A digest covers the object's resource,
    namespace and name, so equal values of two objects have different digests."""

    redaction: Redaction
    resource: Resource
    key: str
    left: int = MOST_WORK
    begun: Callable[..., str] | None = None
    """The digest after the parts that all values of the object have in common."""

    def __call__(self, *parts: str) -> str:
        """The digest of a value, from parts that say where it stands, and the value. Raises TooCostly."""
        encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
        self.digests(1)
        self.copies(sum(map(len, encoded)))
        if self.begun is None:
            namespace, _, name = self.key.rpartition("/")
            self.begun = self.redaction.starting_with(
                *(each.encode() for each in (self.resource.name, namespace, name))
            )
        return self.begun(*encoded)

    def searches(self, size: int) -> None:
        """Counts bytes that are searched for credentials. Raises TooCostly, as do the following."""
        self.left -= size
        if self.left < 0:
            raise TooCostly

    def digests(self, count: int) -> None:
        self.searches(count * _PER_DIGEST * len(self.redaction.keys))

    def copies(self, size: int) -> None:
        self.searches(size // _HASHED)
