"""Makes served kinds from CustomResourceDefinitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from bridge.playground.http.errors import invalid
from bridge.playground.objects.catalogue import EVERY_VERB, Kind, PrinterColumn, Subresource
from bridge.playground.objects.objects import Manifest

GROUP, PLURAL = "apiextensions.k8s.io", "customresourcedefinitions"
NAME: str = f"{PLURAL}.{GROUP}"

_MATURITY = {"": 2, "beta": 1, "alpha": 0}


def kind_of(manifest: Manifest) -> Kind:
    """The kind that a definition describes. Raises StatusError (422) for a definition with required fields missing."""
    spec = manifest.get("spec") or {}
    names = spec.get("names") or {}
    _demand(manifest, spec, names)
    served = [each for each in spec["versions"] if each.get("served")]
    stored = next((each["name"] for each in spec["versions"] if each.get("storage")), "")
    with_status = tuple(each["name"] for each in served if "status" in (each.get("subresources") or {}))
    return Kind(
        group=spec["group"],
        versions=tuple(sorted((each["name"] for each in served), key=_priority, reverse=True)),
        plural=names["plural"],
        kind=names["kind"],
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        verbs=EVERY_VERB,
        subresources=(Subresource("status", names["kind"], ("get", "patch", "update")),) if with_status else (),
        status_versions=with_status,
        columns={each["name"]: _columns(manifest["metadata"]["name"], each) for each in served},
        custom=True,
        hash_version=stored,
    )


def _columns(definition: str, version: Mapping[str, Any]) -> tuple[PrinterColumn, ...]:
    """Raises StatusError (422)."""
    try:
        return msgspec.convert(version.get("additionalPrinterColumns") or (), tuple[PrinterColumn, ...])
    except msgspec.ValidationError as error:
        causes = [("FieldValueInvalid", f"Invalid value: {error}", "spec.versions.additionalPrinterColumns")]
        raise invalid(GROUP, "CustomResourceDefinition", definition, causes) from error


def established(manifest: Manifest, now: str) -> Manifest:
    """The accepted definition, with defaults filled in and its names established at once. The real server takes two
    more changes for that, a moment later."""
    spec = manifest["spec"]
    kind = kind_of(manifest)
    names = {"singular": kind.singular, "listKind": kind.list_kind, **spec["names"]}
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    status = {"conditions": conditions, "acceptedNames": names, "storedVersions": [kind.hash_version]}
    accepted = {**spec, "names": names, "conversion": spec.get("conversion") or {"strategy": "None"}}
    known = manifest.get("status") or {}
    return {**manifest, "spec": accepted, "status": known if known.get("conditions") else status}


def _condition(name: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": name, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def _demand(manifest: Manifest, spec: dict[str, Any], names: dict[str, Any]) -> None:
    missing = [f"spec.{each}" for each in ("group", "scope", "versions") if not spec.get(each)]
    missing += [f"spec.names.{each}" for each in ("plural", "kind") if not names.get(each)]
    causes = [("FieldValueRequired", "Required value", each) for each in missing]
    name = (manifest.get("metadata") or {}).get("name", "")
    if not causes and name != f"{names['plural']}.{spec['group']}":
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes.append(("FieldValueInvalid", message, "metadata.name"))
    if causes:
        raise invalid(GROUP, "CustomResourceDefinition", name, causes)


def _priority(version: str) -> tuple[int, int, int, str]:
    """The sort key for Kubernetes' order of versions: v2, v1, v1beta1, v1alpha1, then all other names."""
    found = re.fullmatch(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?", version)
    if found is None:
        return (-1, 0, 0, version)
    return (_MATURITY[found[2] or ""], int(found[1]), int(found[3] or 0), "")
