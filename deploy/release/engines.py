"""Builds the image into an archive with the engine of the machine."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

ENGINES = ("docker", "podman", "buildah")
Run = Callable[[Sequence[str]], None]


def engine_of(name: str) -> str:
    """The engine of this name; for an empty name the first engine on PATH. Raises LookupError."""
    for engine in (name,) if name else ENGINES:
        if shutil.which(engine):
            return engine
    raise LookupError(f"ENGINE: no {name or ', '.join(ENGINES)} on PATH")


def archive_format(engine: str, platforms: str) -> str:
    """The format that ``build_image`` writes, in the words of skopeo."""
    return "docker-archive" if engine == "docker" and not platforms else "oci-archive"


def build_image(engine: str, image: str, base: str, platforms: str, archive: Path, run: Run) -> None:
    """Builds the folder in which ``run`` runs, on ``base`` or the Dockerfile's own, and saves it: for the machine's own
    platform, or with ``platforms`` for each of these (those of another processor need its emulation by the kernel)."""
    chosen = ("--build-arg", f"BASE={base}") if base else ()
    archive.unlink(missing_ok=True)
    match engine:
        case "docker" if platforms:
            output = ("--output", f"type=oci,dest={archive}")
            run(["docker", "buildx", "build", "--platform", platforms, *chosen, *output, "--tag", image, "."])
        case _ if platforms:
            # A list of its own: one that is there keeps its images, those of an earlier build.
            images = f"{image}-{secrets.token_hex(4)}"
            run([engine, "build", "--platform", platforms, *chosen, "--manifest", images, "."])
            run([engine, "manifest", "push", "--all", "--rm", images, f"oci-archive:{archive}:{image}"])
        case "buildah":
            run(["buildah", "bud", "--layers", *chosen, "--tag", image, "."])
            run(["buildah", "push", image, f"oci-archive:{archive}:{image}"])
        case "podman":
            run(["podman", "build", *chosen, "--tag", image, "."])
            run(["podman", "save", "--format", "oci-archive", "--output", str(archive), image])
        case _:
            run(["docker", "build", *chosen, "--tag", image, "."])
            run(["docker", "save", "--output", str(archive), image])
