"""Objects of many kinds, each with what real ones have: as kube-apiserver takes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bridge.model.resource import Resource
from bridge.playground.objects.builtin import BUILT_IN

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """An object that can be created, and the status that a controller then writes."""

    resource: Resource
    body: Manifest
    """Without the status."""
    status: Manifest

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def name(self) -> str:
        name: str = self.body["metadata"]["name"]
        return name

    def path(self, namespace: str) -> str:
        """Of the collection; that of all for what has no namespace."""
        return self.resource.path(namespace if self.resource.namespaced else None)

    def manifest(self, name: str) -> Manifest:
        return {**self.body, "metadata": {**self.body["metadata"], "name": name}}


_RESOURCES = {(kind.api_version(each), kind.kind): kind.resource(each) for kind in BUILT_IN for each in kind.versions}


def _example(body: Manifest) -> Example:
    status: Manifest = body.pop("status", {})
    return Example(_RESOURCES[body["apiVersion"], body["kind"]], body, status)


EXAMPLES = [_example(each) for each in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())]
