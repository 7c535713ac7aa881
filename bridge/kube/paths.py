"""Paths of the API's URLs. Pure."""

from __future__ import annotations

import re
from urllib.parse import quote

from bridge.model.resource import Resource


def collection_path(resource: Resource, namespace: str | None = None) -> str:
    """Where a resource is listed and watched, in one namespace or in all. Raises ValueError for what no path can
    hold."""
    root = ("apis", resource.group) if resource.group else ("api",)
    within = ("namespaces", namespace) if namespace else ()
    return "".join(f"/{segment(each)}" for each in (*root, resource.version, *within, resource.plural))


def escaped(value: str) -> str:
    """A value as it stands in a field selector (apimachinery's ``fields.EscapeValue``)."""
    return re.sub(r"([\\\\,=])", r"\\\1", value)


def segment(text: str) -> str:
    """One segment of a path, quoted so that it stays one. Dots cannot be quoted: clients and servers on the way take
    them for a step up. Raises ValueError."""
    if text in {"", ".", ".."}:
        raise ValueError(f"{text!r} is no segment of a path")
    return quote(text, safe="")
