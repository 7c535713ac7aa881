"""Builds the URL of a list or a watch: its path, and its query parameters without the selectors of a scope."""

from __future__ import annotations

import re
from urllib.parse import quote

from bridge.model.answers import ListRequest, Match, WatchRequest
from bridge.model.resource import Resource


def list_parameters(request: ListRequest) -> dict[str, str]:
    """The query parameters of a list, or of a further page of it."""
    params = {"limit": str(request.limit)} if request.limit else {}
    if request.shard_selector:
        params["shardSelector"] = request.shard_selector
    if request.next_page is not None:
        # The token carries the version, and the API refuses both together.
        return {**params, "continue": request.next_page}
    if request.version:
        params["resourceVersion"] = request.version
    if request.version not in {"", "0"}:
        params["resourceVersionMatch"] = request.match
    return params


def watch_parameters(request: WatchRequest) -> dict[str, str]:
    """The query parameters of a watch."""
    params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(request.timeout)}
    if request.version:
        params["resourceVersion"] = request.version
    if request.shard_selector:
        params["shardSelector"] = request.shard_selector
    if request.initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": Match.NOT_OLDER_THAN}
    return params


def collection_path(resource: Resource, namespace: str | None = None) -> str:
    """The path for lists and watches of a resource, in a namespace or in all. Raises ValueError for a name that no path
    can hold."""
    root = ("apis", resource.group) if resource.group else ("api",)
    within = ("namespaces", namespace) if namespace else ()
    return "".join(f"/{segment(each)}" for each in (*root, resource.version, *within, resource.plural))


def escaped(value: str) -> str:
    """A value, escaped for a field selector (apimachinery's ``fields.EscapeValue``)."""
    return re.sub(r"([\\,=])", r"\\\1", value)


def segment(text: str) -> str:
    """The text quoted as a single segment of a path. Raises ValueError for an empty text and for dots, which quoting
    does not protect: clients and proxies read them as a step up."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} cannot be a segment of a path")
    return quote(text, safe="")
