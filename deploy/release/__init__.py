"""Makes a release: ``python -m deploy.release`` (``make release``). It uploads nothing.

artefacts    wheels, image, chart, bill of materials, provenance, notes, signed checksums
chart        the Chart.yaml that is published (pure)
engines      builds the image with buildah, podman or docker
notes        the part of the changelog for a version (pure)
obstacles    reasons against a release
provenance   what the image was made of (pure)
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
