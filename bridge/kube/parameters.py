"""Builds the query parameters of lists and watches, without selectors of a scope. Pure."""

from __future__ import annotations

from bridge.model.answers import ListRequest, Match, WatchRequest


def list_parameters(request: ListRequest) -> dict[str, str]:
    """Of a page of a list."""
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
    """Of a watch."""
    params = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(request.timeout)}
    if request.version:
        params["resourceVersion"] = request.version
    if request.shard_selector:
        params["shardSelector"] = request.shard_selector
    if request.initial_events:
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": Match.NOT_OLDER_THAN}
    return params
