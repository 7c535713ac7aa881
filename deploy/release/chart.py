"""The Chart.yaml of a release: that of the tree, with what Artifact Hub shows beside it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from deploy.release.notes import Notes

ICON = "bridge/app/page/static/icon.svg"
"""On the site of `make docs`, as in the tree."""
_BULLET = re.compile(r"^- (.*(?:\n  .*)*)", re.MULTILINE)


def published(chart: str, notes: Notes, urls: Mapping[str, str]) -> str:
    """``chart`` with the changes of the version, and with home, sources and icon where the project has ``urls``: a
    Homepage, which is the site of the documents, and a Source."""
    document = yaml.safe_load(chart)
    changes = yaml.safe_dump(_changes(notes), allow_unicode=True, width=10_000)
    document["annotations"]["artifacthub.io/changes"] = changes
    if urls:
        home = urls["Homepage"].rstrip("/")
        document |= {"home": home, "sources": [urls["Source"]], "icon": f"{home}/{ICON}"}
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def _changes(notes: Notes) -> list[str]:
    """A line for each, without the marks and links of Markdown."""
    lines = (" ".join(each.split()) for each in _BULLET.findall(notes.text))
    return [re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", line) for line in lines]
