"""What an image was made of, as a predicate of SLSA provenance 1.0 (in-toto). Pure."""

from __future__ import annotations

from typing import Any


def predicate(version: str, commit: str, base: str, platforms: str, source: str) -> dict[str, Any]:
    """For `cosign attest`. ``base``: the image's base, by its digest. ``source``: the address of the repository."""
    name, _, digest = base.partition("@sha256:")
    dependencies: list[dict[str, Any]] = [{"uri": f"git+{source}", "digest": {"gitCommit": commit}}]
    if digest:
        dependencies.append({"uri": f"docker://{name}", "digest": {"sha256": digest}})
    return {
        "buildDefinition": {
            "buildType": f"git+{source}#Makefile:release",
            "externalParameters": {"version": version, "base": base, "platforms": platforms},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {"builder": {"id": f"git+{source}#deploy/release"}},
    }
