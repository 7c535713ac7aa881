"""Writes metadata.managedFields, which makes objects as large as real objects (KEP-555, FieldsV1)."""

from __future__ import annotations

from typing import Any

_NOT_OWNED = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"}
    | {"deletionGracePeriodSeconds", "managedFields", "selfLink"}
)
_MAPS = ("data", "binaryData")
_LIST_KEYS = ("name", "type", "containerPort", "mountPath", "ip", "uid")
"""Members that identify the entries of a list. The real server reads them from each kind's schema."""


def managed_by(
    entries: list[dict[str, Any]],
    manifest: dict[str, Any],
    manager: str,
    api_version: str,
    time: str,
    *,
    status: bool,
    custom: bool,
) -> list[dict[str, Any]]:
    """``entries`` after ``manager`` wrote the manifest: its own entry is replaced, the other entries stay.

    Coarser than the real server, which knows each kind's schema: a manager owns all fields that it wrote, changed or
    not, and the shape of a list's entries decides which member identifies them.
    """
    owned = {"status": manifest.get("status")} if status else {**manifest, "status": None}
    fields = _object_fields(owned, custom=custom)
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": "status"} if status else {}),
    }
    others = [
        each
        for each in entries
        if not (each.get("manager") == manager and (each.get("subresource") == "status") == status)
    ]
    return [*others, entry] if fields else others


def _object_fields(manifest: dict[str, Any], *, custom: bool) -> dict[str, Any]:
    """The owned fields. A custom resource has no schema here, so "." marks each of its objects as owned whole."""
    fields: dict[str, Any] = {}
    for name, value in sorted(manifest.items()):
        if name in ("kind", "apiVersion") or value is None:
            continue
        if name == "metadata":
            if owned := _metadata_fields(value):
                fields["f:metadata"] = owned
        elif isinstance(value, dict):
            whole = custom or name in _MAPS
            fields[f"f:{name}"] = _members(value, custom=custom, whole=whole)
        else:
            fields[f"f:{name}"] = {}
    return fields


def _metadata_fields(metadata: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in sorted(metadata.items()):
        if name in _NOT_OWNED or not value:
            continue
        if name == "finalizers":
            fields["f:finalizers"] = {".": {}} | {f'v:"{each}"': {} for each in value}
        elif name == "ownerReferences":
            fields["f:ownerReferences"] = {".": {}} | {f'k:{{"uid":"{each["uid"]}"}}': {} for each in value}
        elif isinstance(value, dict):
            fields[f"f:{name}"] = {".": {}} | {f"f:{each}": {} for each in sorted(value)}
        else:
            fields[f"f:{name}"] = {}
    return fields


def _members(value: dict[str, Any], *, custom: bool, whole: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {".": {}} if whole and value else {}
    for name, member in sorted(value.items()):
        if member is not None:
            fields[f"f:{name}"] = _fields(member, custom=custom)
    return fields


def _fields(value: Any, *, custom: bool) -> dict[str, Any]:
    if isinstance(value, dict):
        return _members(value, custom=custom, whole=custom)
    if custom or not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        return {}
    key = next((key for key in _LIST_KEYS if all(key in each for each in value)), None)
    if key is None:
        return {}
    return {
        f'k:{{"{key}":{_literal(each[key])}}}': {".": {}} | _members(each, custom=False, whole=False) for each in value
    }


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'
