"""Objects as an API server sends them, and what leaves of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridge.kube.wire.objects import read_object
from bridge.model.object import ApiObject
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for

SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", namespaced=True)
SECRET = "hunter2-hunter2"
TOKEN = "abcdef.0123456789abcdef"
KEY = RedactionKey(b"k" * 32)
REDACTION = Redaction((KEY,))
METADATA = {"name": "web", "namespace": "shop", "uid": "uid-1", "resourceVersion": "7"}


def manifest(resource: Resource, metadata: Mapping[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """``metadata``: beside, or in place of, the usual ones."""
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return {**head, "metadata": {**METADATA, **(metadata or {})}, **members}


def read(resource: Resource, thing: Any, **spelling: Any) -> ApiObject:
    """``thing``: a manifest, or its JSON. ``spelling``: options of ``json.dumps``."""
    text = thing if isinstance(thing, str) else json.dumps(thing, **{"separators": (",", ":"), **spelling})
    found = read_object(text.encode(), resource, managed_fields=False)
    assert isinstance(found, ApiObject)
    return found


def leaves(resource: Resource, thing: Any, redaction: Redaction = REDACTION, **spelling: Any) -> Any:
    """The manifest that leaves."""
    return json.loads(transform_for(resource, redaction)(read(resource, thing, **spelling)).body)
