"""Validates objects before they are written or deleted. Each function raises StatusError."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bridge.playground.http.errors import conflict, invalid
from bridge.playground.objects import crds
from bridge.playground.objects.catalogue import Kind
from bridge.playground.objects.objects import Manifest
from bridge.playground.objects.store import StoredObject

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ANY_NAME = frozenset({"roles", "clusterroles", "rolebindings", "clusterrolebindings"})

_DEMANDING = frozenset({"leases.coordination.k8s.io", crds.NAME})
"""Built-in kinds that cannot be updated without a resourceVersion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Precondition:
    """The preconditions of a delete; empty parts are not checked."""

    uid: str = ""
    resource_version: str = ""


def demand_name(kind: Kind, name: str) -> None:
    if not name:
        cause = ("FieldValueRequired", "Required value: name or generateName is required", "metadata.name")
        raise invalid(kind.group, kind.kind, "", [cause])
    if not (_SUBDOMAIN.fullmatch(name) and len(name) <= 253) and kind.plural not in _ANY_NAME:
        why = (
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            f"regex used for validation is '{_SUBDOMAIN.pattern}')"
        )
        raise invalid(kind.group, kind.kind, name, [("FieldValueInvalid", why, "metadata.name")])


def demand_unchanged(kind: Kind, before: StoredObject, metadata: Manifest) -> None:
    wanted = metadata.get("resourceVersion") or ""
    if not wanted and (kind.custom or kind.name in _DEMANDING):
        why = "Invalid value: 0: must be specified for an update"
        # The real server names the resource here and not the kind.
        raise invalid(kind.group, kind.plural, before.name, [("FieldValueInvalid", why, "metadata.resourceVersion")])
    if wanted and wanted != str(before.version):
        raise conflict(kind.group, kind.plural, before.name)
    if metadata.get("uid") and metadata["uid"] != before.uid:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {before.uid}"
        raise conflict(kind.group, kind.plural, before.name, why)


def demand_precondition(kind: Kind, before: StoredObject, demand: Precondition) -> None:
    if demand.uid and demand.uid != before.uid:
        why = (
            f"the UID in the precondition ({demand.uid}) does not match the UID in record ({before.uid}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(kind.group, kind.kind, before.name, why)
    if demand.resource_version and demand.resource_version != str(before.version):
        why = (
            f"the ResourceVersion in the precondition ({demand.resource_version}) does not match the "
            f"ResourceVersion in record ({before.version}). The object might have been modified"
        )
        raise conflict(kind.group, kind.kind, before.name, why)
