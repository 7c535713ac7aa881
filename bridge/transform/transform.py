"""Transforms objects for their export: strips them, and redacts Secrets. Pure. Never raises."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridge.model.object import ApiObject, bare_body, stripped
from bridge.model.resource import Resource
from bridge.transform.redact import is_secret, redacted
from bridge.transform.redaction_key import RedactionKey


def transform_for(resource: Resource, key: RedactionKey) -> Callable[[ApiObject], ApiObject]:
    """The transform of a resource's objects, applied once, before an object is stored, logged or sent.

    An object counts as a Secret by its resource or by its own kind. An object of an unexpected shape is reduced to a
    minimal object: kind, apiVersion, name, namespace, uid, resourceVersion."""
    secrets = is_secret(resource)

    def transform(thing: ApiObject) -> ApiObject:
        secret = secrets or thing.secret
        if thing.stripped and not secret:  # ``kube`` stripped it while it read the object.
            return thing
        try:
            body = redacted(thing, resource, key) if secret else stripped(thing.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
            body = bare_body(resource, thing.key, thing.uid, thing.resource_version)
        if body is thing.body:
            return thing
        return ApiObject(thing.key, thing.uid, thing.resource_version, body)

    return transform
