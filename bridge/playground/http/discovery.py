"""Makes the discovery documents of the catalogue: a document for each group and version, or aggregated (KEP-3352)."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from bridge.playground.http.errors import encode
from bridge.playground.objects.catalogue import Kind, ServedKinds, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""The verbs of custom kinds, which have another order than the verbs of built-in kinds."""


def api_versions(server_address: str) -> dict[str, Any]:
    """``/api``. ``server_address`` is host:port."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    }


def api_group_list(catalogue: ServedKinds) -> dict[str, Any]:
    """``/apis``."""
    groups = [_group(catalogue, group) for group in catalogue.groups()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(catalogue: ServedKinds, group: str) -> dict[str, Any]:
    """``/apis/apps``."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(catalogue, group)}


def api_resource_list(catalogue: ServedKinds, group: str, version: str) -> dict[str, Any]:
    """``/api/v1``, ``/apis/apps/v1``."""
    resources = [entry for kind in catalogue.within(group, version) for entry in _api_resources(kind, version)]
    group_version = f"{group}/{version}" if group else version
    # The core group's document has no apiVersion of its own.
    own = {"apiVersion": "v1"} if group else {}
    return {"kind": "APIResourceList", **own, "groupVersion": group_version, "resources": resources}


def aggregated(catalogue: ServedKinds, *, core: bool) -> tuple[bytes, str]:
    """``/api`` or ``/apis`` with all resources, and its entity tag: APIGroupDiscoveryList of apidiscovery.k8s.io/v2."""
    if core not in catalogue.documents:
        document = {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [_discovered_group(catalogue, group) for group in ([""] if core else catalogue.groups())],
        }
        text = encode(document) + b"\n"
        catalogue.documents[core] = text, etag(text)
    return catalogue.documents[core]


def etag(document: bytes) -> str:
    """The entity tag, made as kube-apiserver makes it: the document's SHA-512 in hexadecimal, quoted."""
    return f'"{hashlib.sha512(document).hexdigest().upper()}"'


def _group(catalogue: ServedKinds, group: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{group}/{each}", "version": each} for each in catalogue.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _verbs(kind: Kind) -> tuple[str, ...]:
    return _CUSTOM_VERBS if kind.custom else kind.verbs


def _api_resources(kind: Kind, version: str) -> list[dict[str, Any]]:
    whole: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_verbs(kind)),
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
    }
    if kind.watchable:
        whole["storageVersionHash"] = _storage_version_hash(kind)
    return [whole, *(_api_subresource(kind, each) for each in kind.subresources_in(version))]


def _api_subresource(kind: Kind, part: Subresource) -> dict[str, Any]:
    return {
        "name": f"{kind.plural}/{part.name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        **({} if part.group is None else {"group": part.group, "version": part.version}),
        "kind": part.kind,
        "verbs": list(part.verbs),
    }


def _storage_version_hash(kind: Kind) -> str:
    """Follows ``StorageVersionHash`` of apiserver's ``endpoints/discovery``."""
    group = kind.stored_as.partition(".")[2] if kind.stored_as else kind.group
    stored = f"{group}/{kind.hash_version or kind.versions[0]}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()


def _discovered_group(catalogue: ServedKinds, group: str) -> dict[str, Any]:
    versions = [_discovered_version(catalogue, group, each) for each in catalogue.versions(group)]
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _discovered_version(catalogue: ServedKinds, group: str, version: str) -> dict[str, Any]:
    resources = [_discovered_resource(kind, version) for kind in catalogue.within(group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _discovered_resource(kind: Kind, version: str) -> dict[str, Any]:
    subresources = [_discovered_subresource(kind, version, each) for each in kind.subresources_in(version)]
    return {
        "resource": kind.plural,
        "responseKind": _response_kind(kind, version, kind.kind),
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(_verbs(kind)),
        **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
        **({"categories": list(kind.categories)} if kind.categories else {}),
        **({"subresources": subresources} if subresources else {}),
    }


def _discovered_subresource(kind: Kind, version: str, part: Subresource) -> dict[str, Any]:
    response_kind = _response_kind(kind, version, part.kind)
    if part.group is not None:
        response_kind = {"group": part.group, "version": part.version or "", "kind": part.kind}
    return {"subresource": part.name, "responseKind": response_kind, "verbs": list(part.verbs)}


def _response_kind(kind: Kind, version: str, name: str) -> dict[str, str]:
    """Group and version stay empty for built-in kinds, and are named for custom kinds."""
    return (
        {"group": kind.group, "version": version, "kind": name}
        if kind.custom
        else {"group": "", "version": "", "kind": name}
    )
