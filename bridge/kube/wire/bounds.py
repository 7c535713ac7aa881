"""How long the names may be that a server or a tenant chooses, and that are stored, sent back or used as keys. Pure.

A server that names a longer version or uid is wrong: the object, the bookmark or the list cannot be read, and no other
resource is concerned. A name is a tenant's choice, and kube-apiserver bounds it for most kinds only, so an object with
a longer one is left out, named in the log, and its list is complete without it. Names in discovery documents have
bounds of their own (``discovery.accepted``), and texts for the log are shortened (``status.shortened``).
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

LONGEST_NAME = 512
"""Characters. Most kinds allow 253; the names of RBAC's kinds are bounded by the size of a request alone."""
LONGEST_NAMESPACE = 253
"""Characters. kube-apiserver allows 63."""
LONGEST_UID = 128
"""Characters. kube-apiserver writes 36."""
LONGEST_VERSION = 128
"""Characters of a resourceVersion, which is opaque. kube-apiserver writes at most 20 digits."""
LONGEST_ETAG = 256
"""Characters. kube-apiserver writes 130."""

Namespace: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NAMESPACE)]
Uid: TypeAlias = Annotated[str, Meta(max_length=LONGEST_UID)]
Version: TypeAlias = Annotated[str, Meta(max_length=LONGEST_VERSION)]


def has_long_name(name: str) -> str:
    """The reason why an object of this name is left out; empty if it is not."""
    if len(name) <= LONGEST_NAME:
        return ""
    return (
        f"{name[:100]}…: it is left out, since its name has {len(name)} characters; at most {LONGEST_NAME} are allowed"
    )
