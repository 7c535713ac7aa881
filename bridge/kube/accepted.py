"""Which names of a discovery document are accepted, and how many. Pure.

An aggregated API server writes its own part of the document, and what it calls its resources becomes a path of a URL,
a topic, a line of a log. Accepted is what kube-apiserver accepts in a CustomResourceDefinition or an APIService
(apimachinery's ``pkg/util/validation``): DNS names. No other name can leave its segment of a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bridge.kube.status import shortened
from bridge.model.resource import Resource

MOST_VERSIONS = 5_000
"""Groups with their versions, in one document."""
MOST_RESOURCES = 2_000
"""Of a group in one version. The largest that are known have some hundred."""
MOST_SHORT_NAMES = 16
"""Of one resource."""
LONGEST_SUBDOMAIN = 253
MOST_REJECTED = 20
"""Rejections that are told one by one."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_KIND = re.compile(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def is_accepted(resource: Resource) -> bool:
    """All its names are: also one that was accepted long ago, and is remembered, is judged again."""
    group = is_group(resource.group, "/apis" if resource.group else "/api")
    return group and is_label(resource.version) and is_label(resource.plural) and is_kind(resource.kind)


def is_label(name: str) -> bool:
    """RFC 1123: plurals, singulars, short names and versions."""
    return _LABEL.fullmatch(name) is not None


def is_kind(name: str) -> bool:
    return _KIND.fullmatch(name) is not None


def is_group(name: str, path: str) -> bool:
    """The core group has no name, and is served under /api; every other has one, and is served under /apis."""
    if path == "/api":
        return name == ""
    return len(name) <= LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None


def printed(name: str) -> str:
    """A name that was not accepted, in quotes, escaped, and not at length."""
    return shortened(ascii(name[:100]))


def some(rejected: Iterable[str]) -> tuple[str, ...]:
    """Each once; beyond MOST_REJECTED, only that there are more."""
    once = tuple(dict.fromkeys(rejected))
    return once if len(once) <= MOST_REJECTED else (*once[:MOST_REJECTED], "more like these")
