"""Checks the names in a discovery document, and bounds their number. Pure.

An aggregated API server writes its own part of the document, and the names of its resources become paths of URLs,
topics and lines of logs. The bridge accepts the names that kube-apiserver accepts in a CustomResourceDefinition or an
APIService (apimachinery's ``pkg/util/validation``): DNS names, which cannot leave their segment of a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridge.kube.wire.status import shortened
from bridge.model.resource import Resource

MOST_VERSIONS = 5_000
"""Pairs of group and version in a document."""
MOST_RESOURCES = 2_000
"""Resources of a group in a version. The largest known groups have some hundred."""
MOST_SHORT_NAMES = 16
"""Short names of a resource."""
MOST_MEMBERS = 2_000_000
"""Members of all objects and arrays in a document: ten thousand resources have some 300,000."""
LONGEST_SUBDOMAIN = 253
MOST_REJECTED = 20
"""Rejections that are reported singly."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def is_accepted(resource: Resource) -> bool:
    """Whether all names of the resource are accepted. A checkpoint's resources pass here too: an older release may have
    accepted more."""
    group = is_group(resource.group, "/apis" if resource.group else "/api")
    return group and is_label(resource.version) and is_label(resource.plural) and is_kind(resource.kind)


def is_label(name: str) -> bool:
    """RFC 1123: plurals, singulars, short names and versions."""
    return _LABEL.fullmatch(name) is not None


def is_kind(name: str) -> bool:
    return _KIND.fullmatch(name) is not None


def is_group(name: str, path: str) -> bool:
    """The core group has no name and is served under /api; all other groups have a name and are served under /apis."""
    if path == "/api":
        return name == ""
    return len(name) <= LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def printed(name: str) -> str:
    """A rejected name for a log line: quoted, escaped, and shortened."""
    return shortened(ascii(name[:100]))


def some(rejected: Iterable[str]) -> tuple[str, ...]:
    """The distinct reasons. Reasons beyond MOST_REJECTED are replaced by a note that there are more."""
    once = tuple(dict.fromkeys(rejected))
    return once if len(once) <= MOST_REJECTED else (*once[:MOST_REJECTED], "more like these")
