"""Annotations that do not leave as they are: copies of the whole object, and tokens.

A name decides. ``may_matter`` looks for a part of each such name in the bytes of the annotations, because it is asked
about every object; a name in other letters, or behind an escape, is found there too.
"""

from __future__ import annotations

from typing import Final

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation of ``kubectl apply`` with a copy of the whole object, Secret data included."""

_COPIES = frozenset(
    {
        "objectset.rio.cattle.io/applied",  # Rancher, k3s
        "kapp.k14s.io/original",
        "kapp.k14s.io/original-diff",
        "kapp.k14s.io/original-diff-full",
    }
)
_COPY_NAMES = frozenset(
    {
        "last-applied",  # Banzai Cloud's operators
        "last-applied-configuration",  # kubectl, KubeVela
        "last-handled-configuration",  # kopf
    }
)
"""Names behind the prefix of an annotation, whatever that prefix is."""
_ONE, _TWO, _THREE, _FOUR, _ESCAPE = b"applied", b"last-h", b"kapp.", b"token", b"\\u"


def is_copy(name: str) -> bool:
    """Whether an annotation of this name holds a copy of its object."""
    return name in _COPIES or name.rpartition("/")[2] in _COPY_NAMES


def holds_token(name: str) -> bool:
    """Whether an annotation of this name holds a token: its last word is ``token``, as in ``example.com/auth-token``,
    ``API_TOKEN`` and ``authToken``, or OpenShift keeps a token there."""
    last = name.rpartition("/")[2]
    lower = last.lower()
    return (
        lower in {"token", "token-secret.value"}
        or last.endswith("Token")
        or lower.endswith(("-token", ".token", "_token"))
    )


def may_matter(annotations: bytes) -> bool:
    """Whether the JSON of annotations may have one that is a copy or holds a token. Hot."""
    small = annotations.lower()
    return (
        _ONE in small
        or _FOUR in small
        or _TWO in small
        or _THREE in small
        or _ESCAPE in small
        or not annotations.isascii()  # The Kelvin sign is a k in small letters.
    )
