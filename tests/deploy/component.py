"""The plain manifests, as kustomize would bring them, alone and with the components for replicas."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.helm import ROOT, Manifest

DEPLOY = ROOT / "deploy"
REPLICAS = DEPLOY / "replicas"


def plain() -> list[Manifest]:
    """Those of one bridge, in the order of their kustomization."""
    return _resources(DEPLOY)


def plain_replicas() -> list[Manifest]:
    """Those of two replicas."""
    return _with(REPLICAS, plain())


def _with(component: Path, made: list[Manifest]) -> list[Manifest]:
    for patch in _kustomization(component)["patches"]:
        target = patch["target"]
        [place] = [place for place, each in enumerate(made) if _is(each, target)]
        if "path" in patch:
            made[place] = _patched(made[place], yaml.safe_load((component / patch["path"]).read_text()))
        else:
            assert yaml.safe_load(patch["patch"])["$patch"] == "delete"
            del made[place]
    return made + _resources(component)


def _kustomization(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def _resources(folder: Path) -> list[Manifest]:
    names = _kustomization(folder).get("resources", ())
    return [each for name in names for each in yaml.safe_load_all((folder / name).read_text())]


def _is(manifest: Manifest, target: dict[str, str]) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == (target["kind"], target["name"])


def _patched(manifest: Manifest, operations: list[dict[str, Any]]) -> Manifest:
    """RFC 6902: add, remove, replace and test."""
    made = deepcopy(manifest)
    for operation in operations:
        *path, last = operation["path"].lstrip("/").split("/")
        parent: Any = made
        for part in path:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        place = int(last) if isinstance(parent, list) and last != "-" else last
        match operation["op"]:
            case "test":
                assert parent[place] == operation["value"]
            case "remove":
                del parent[place]
            case "replace":
                assert place in parent
                parent[place] = operation["value"]
            case "add" if isinstance(parent, list):
                assert last == "-"
                parent.append(operation["value"])
            case "add":
                assert place not in parent
                parent[place] = operation["value"]
            case other:
                raise AssertionError(other)
    return made
