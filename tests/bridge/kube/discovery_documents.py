"""Discovery documents as kube-apiserver writes them, from a short description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.kit.scripted_server import Handler, ScriptedServer, answering

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Described:
    plural: str
    kind: str
    short: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = ALL_VERBS

    def aggregated(self) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "resource": self.plural,
            "responseKind": {"group": "", "version": "", "kind": self.kind},
            "scope": "Namespaced" if self.namespaced else "Cluster",
            "singularResource": self.kind.lower(),
            "verbs": self.verbs,
            "subresources": [{"subresource": "status", "verbs": ["get", "patch", "update"]}],
        }
        return entry | ({"shortNames": self.short} if self.short else {})

    def classic(self) -> list[dict[str, Any]]:
        entry: dict[str, Any] = {
            "name": self.plural,
            "singularName": self.kind.lower(),
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": self.verbs,
            "storageVersionHash": "xyz",
        }
        status = {**entry, "name": f"{self.plural}/status", "singularName": "", "verbs": ["get", "patch", "update"]}
        return [entry | ({"shortNames": self.short} if self.short else {}), status]


PODS = Described("pods", "Pod", ("po",))
NODES = Described("nodes", "Node", ("no",), namespaced=False)
EVENTS = Described("events", "Event", ("ev",))
DEPLOYMENTS = Described("deployments", "Deployment", ("deploy",))
CERTIFICATES = Described("certificates", "Certificate", ("cert", "certs"))

World = dict[tuple[str, str], list[Described]]
"""(group, version) → what it serves, preferred versions first."""

SMALL: World = {
    ("", "v1"): [
        Described("bindings", "Binding", verbs=("create",)),
        Described("componentstatuses", "ComponentStatus", ("cs",), namespaced=False, verbs=("get", "list")),
        Described("endpoints", "Endpoints", ("ep",)),
        EVENTS,
        NODES,
        PODS,
        Described("secrets", "Secret"),
    ],
    ("apps", "v1"): [DEPLOYMENTS, Described("replicasets", "ReplicaSet", ("rs",))],
    ("events.k8s.io", "v1"): [EVENTS],
    ("autoscaling", "v2"): [Described("horizontalpodautoscalers", "HorizontalPodAutoscaler", ("hpa",))],
    ("autoscaling", "v1"): [
        Described("horizontalpodautoscalers", "HorizontalPodAutoscaler", ("hpa",)),
        Described("oldscalers", "OldScaler"),
    ],
    ("extensions", "v1beta1"): [DEPLOYMENTS, Described("relics", "Relic")],
    ("coordination.k8s.io", "v1"): [Described("leases", "Lease")],
    ("cert-manager.io", "v1"): [CERTIFICATES, Described("issuers", "Issuer"), Described("pods", "Pod")],
    ("metrics.k8s.io", "v1beta1"): [Described("nodes", "NodeMetrics", namespaced=False, verbs=("get", "list"))],
}


def aggregated(world: World, path: str, stale: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document of /api or /apis. The ``stale`` groups serve no resources that the server could name."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for (group, version), described in world.items():
        if (path == "/api") == (group == ""):
            freshness = "Stale" if group in stale else "Current"
            resources = [] if group in stale else [each.aggregated() for each in described]
            entry = {"version": version, "resources": resources, "freshness": freshness}
            groups.setdefault(group, []).append(entry)
    items = [{"metadata": {"name": group} if group else {}, "versions": versions} for group, versions in groups.items()]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def serve_aggregated(server: ScriptedServer, world: World, *, etag: str = '"1"', stale: tuple[str, ...] = ()) -> None:
    """As servers since 1.26 do it: a 304 to whoever has the document already."""
    for path in ("/api", "/apis"):
        server.on(path, _unless_known(aggregated(world, path, stale), etag))


def _unless_known(document: dict[str, Any], etag: str) -> Handler:
    async def handle(exchange: Any) -> None:
        if exchange.request.headers.get("if-none-match") == etag:
            await exchange.answer(b"", 304, AGGREGATED, {"ETag": etag})
        else:
            await exchange.answer(document, 200, AGGREGATED, {"ETag": etag})

    return handle


def serve_classic(server: ScriptedServer, world: World) -> None:
    """As older servers, and some that only look like one."""
    groups: dict[str, list[str]] = {}
    for (group, version), described in world.items():
        groups.setdefault(group, []).append(version)
        name = f"{group}/{version}" if group else version
        resources = [entry for each in described for entry in each.classic()]
        document = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": resources}
        server.on(f"/apis/{name}" if group else f"/api/{name}", answering(document))
    server.on("/api", answering({"kind": "APIVersions", "versions": groups.pop("")}))
    listed = [
        {
            "name": group,
            # In the order of their names: the preferred one is named beside.
            "versions": [{"groupVersion": f"{group}/{each}", "version": each} for each in sorted(versions)],
            "preferredVersion": {"groupVersion": f"{group}/{versions[0]}", "version": versions[0]},
        }
        for group, versions in groups.items()
    ]
    server.on("/apis", answering({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}))
