"""The form in which objects leave: stripped, and redacted where they are Secrets. Pure, and it never raises."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridge.model.object import ApiObject, bare_body
from bridge.model.resource import Resource
from bridge.transform.redact import is_secret, redacted
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.strip import stripped


def transform_for(resource: Resource, key: RedactionKey) -> Callable[[ApiObject], ApiObject]:
    """What every object of this resource goes through, once, before it is stored, logged or sent. An object that has
    not the shape it should have leaves bare: its name, uid and version, and nothing else. A Secret is what the resource
    says is one, and what says so itself."""
    secrets = is_secret(resource)

    def transform(thing: ApiObject) -> ApiObject:
        secret = secrets or thing.secret
        if thing.stripped and not secret:
            return thing
        try:
            body = redacted(thing, resource, key) if secret else stripped(thing.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
            body = bare_body(resource, thing.key, thing.uid, thing.resource_version)
        if body is thing.body:
            return thing
        return ApiObject(thing.key, thing.uid, thing.resource_version, body)

    return transform
