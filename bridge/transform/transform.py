"""Transforms objects for their export: strips and redacts them. Pure. Never raises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from bridge.model.object import ApiObject, bare_body
from bridge.model.policies import RedactionPreset, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource
from bridge.transform.presets import Presets
from bridge.transform.redact import is_secret, redacted
from bridge.transform.redaction import Redaction, digest_of
from bridge.transform.rules import PathRules

_RELEASE = PathRules((RedactionRule((FieldPath(("data", "release")), FieldPath(("binaryData",)))),))
_RELEASE_NAME = "sh.helm.release."


def transform_for(resource: Resource, redaction: Redaction) -> Callable[[ApiObject], ApiObject]:
    """The transform of a resource's objects, applied once, before an object is stored, logged or sent.

    An object counts as a Secret by its resource or by its own kind. An object of an unexpected shape is reduced to a
    minimal object: kind, apiVersion, name, namespace, uid, resourceVersion."""
    secrets = is_secret(resource)
    presets = Presets(resource, redaction)
    rules = PathRules(redaction.rules)
    releases = resource.name == "configmaps" and RedactionPreset.HELM_RELEASES in redaction.presets
    digest = partial(digest_of, redaction, resource)

    def transform(thing: ApiObject) -> ApiObject:
        try:
            body = redacted(thing, resource, redaction) if secrets or thing.secret else presets.redacted(thing)
            if releases and b'"release"' in body and _is_release(thing):
                body = _RELEASE.redacted(body, partial(digest, thing.key))
            if redaction.rules:
                body = rules.redacted(body, partial(digest, thing.key))
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError):
            body = bare_body(resource, thing.key, thing.uid, thing.resource_version)
        if body is thing.body:
            return thing
        return ApiObject(thing.key, thing.uid, thing.resource_version, body)

    return transform


def _is_release(thing: ApiObject) -> bool:
    """Whether a ConfigMap is a release of Helm 3 (``HELM_DRIVER=configmap``) or of Helm 2."""
    labels = thing.labels()
    return thing.name.startswith(_RELEASE_NAME) or labels.get("owner") == "helm" or labels.get("OWNER") == "TILLER"
