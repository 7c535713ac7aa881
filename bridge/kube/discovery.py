"""Reads the API server's discovery documents: two requests, answered with a 304 while the documents stay the same.

``discovery_documents`` reads what comes into groups of resources, and a ``catalogue`` of these resolves the names that
operators write. What an aggregated API server writes is checked name by name: a bad one is rejected, reported and
missing, and its neighbours stay.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
"""

from __future__ import annotations

from typing import Any

import httpx
import msgspec

from bridge.kube.catalogue import Catalogue, Document, GroupVersion, keep_stale
from bridge.kube.discovery_documents import (
    gone,
    read_aggregated,
    read_classic_groups,
    read_classic_resources,
    unknown_for_now,
)
from bridge.kube.transport import Answered, Api, ApiError
from bridge.kube.wire.objects import LONGEST_ETAG, UNREADABLE
from bridge.kube.wire.status import shortened
from bridge.model.answers import Failed, Refused
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.cluster import DiscoveryRejected, GroupStale

PATHS = ("/api", "/apis")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
ACCEPT = ", ".join([AGGREGATED.format("v2"), AGGREGATED.format("v2beta1"), "application/json"])


class _DocumentKind(msgspec.Struct):
    kind: Any = None


async def discover(api: Api, previous: Catalogue | None, report: Report) -> Catalogue:
    """The resources that the server serves now, or ``previous`` itself if they are the same. Raises ApiError.

    Reports GroupStale for each group that became stale since ``previous``, and DiscoveryRejected for each name that was
    rejected since then.
    """
    known = previous or Catalogue()
    catalogue = Catalogue(tuple([await _document(api, path, known.document(path)) for path in PATHS]))
    for group in sorted(catalogue.stale - known.stale):
        report(GroupStale(group, "its API server does not answer: the resources that it served last are kept"))
    for rejected in sorted(catalogue.rejected - known.rejected):
        report(DiscoveryRejected(rejected))
    return known if catalogue == known else catalogue


async def _document(api: Api, path: str, previous: Document | None) -> Document:
    headers = {"Accept": ACCEPT}
    if previous and previous.etag:
        headers["If-None-Match"] = previous.etag
    response = await api.ask("GET", path, headers=headers)
    if response.status == httpx.codes.NOT_MODIFIED and previous:
        return previous
    body = response.body
    try:
        # Servers without aggregated discovery (Kubernetes before 1.27) answer with the classic document.
        if msgspec.json.decode(body, type=_DocumentKind).kind == "APIGroupDiscoveryList":
            found, rejected = read_aggregated(body, path)
            return Document(path, _etag(response), keep_stale(found, previous), rejected)
        groups, rejected = read_classic_groups(body, path)
        versions = [await _classic(api, path, str(each)) for each in groups]
    except UNREADABLE as error:
        raise ApiError(
            f"GET {path}", Failed(shortened(f"the discovery document could not be read: {error}"))
        ) from error
    return Document(path, None, keep_stale(versions, previous), rejected)


def _etag(response: Answered) -> str | None:
    """The document's ETag; None for one that is too long, or that no request can send back."""
    etag = response.headers.get("ETag", "")
    return etag if 0 < len(etag) <= LONGEST_ETAG and etag.isascii() and etag.isprintable() else None


async def _classic(api: Api, path: str, name: str) -> GroupVersion:
    try:
        response = await api.ask("GET", f"{path}/{name}")
        return read_classic_resources(name, response.body)
    except ApiError as error:
        if isinstance(error.answer, Refused) and error.answer.status == httpx.codes.NOT_FOUND:
            return gone(name)  # Its definition was deleted between the two requests.
        return unknown_for_now(name)
    except UNREADABLE:
        return unknown_for_now(name)
