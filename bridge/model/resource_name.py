"""Parses kubectl's names for resources. Pure: the meaning of a name on a cluster is for
``bridge.kube.discovery.names``.

pods                     plural, singular, short name or kind
deployments.apps         of a group
deployments.v1.apps      of a group, in a version
*.cert-manager.io, *     all resources of a group, or of the cluster
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")


@dataclass(frozen=True, slots=True)
class ResourceName:
    """The parts of a name, in small letters. Every text can be parsed; config checks the syntax."""

    word: str
    """The text before the first dot; ``*`` for a wildcard."""
    rest: str = ""
    """The text behind the first dot: a group, or a version and a group."""

    @classmethod
    def parsed(cls, text: str) -> ResourceName:
        word, _, rest = text.strip().lower().partition(".")
        return cls(word, rest)

    @property
    def is_wildcard(self) -> bool:
        return self.word == "*"

    @property
    def readings(self) -> tuple[tuple[str | None, str | None], ...]:
        """The possible (group, version), in kubectl's order. None matches any.

        Without a catalogue, ``v1.acme.io`` may be the version v1 of the group acme.io or the group v1.acme.io."""
        if not self.rest:
            return ((None, None),)
        version, dot, group = self.rest.partition(".")
        whole = (self.rest, None)
        return ((group, version), whole) if dot else (whole,)

    @property
    def group(self) -> str:
        """The most likely group: a first part that looks like a version (``v1``, ``v2beta1``) counts as a version."""
        version, _, group = self.rest.partition(".")
        return group if _VERSION.fullmatch(version) else self.rest

    def may_mean(self, group: str, plural: str) -> bool:
        """Whether the name may mean this resource, by its text alone. Short names and kinds need a catalogue."""
        groups = {group for group, _ in self.readings}
        return self.word in ("*", plural) and bool(groups & {None, group})
