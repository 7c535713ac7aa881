"""Where credentials are known to stand in objects that are no Secrets, and how a value there is read.

The table decides for both readers, that of bytes (``transform``) and that of decoded objects (``structure``), and the
property over objects of many shapes plants its secrets by it. Names of variables and flags, and the forms of
credentials, are in ``credentials``; names of annotations in ``model.object``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from bridge.model.policies import RedactionPreset as Preset
from bridge.model.primitives.field_path import FieldPath
from bridge.model.resource import Resource


class Reading(Enum):
    """What a map, a list or a text stands for."""

    VARIABLES = auto()
    """Names and values: a list of maps with ``name`` and ``value``, a list of texts ``NAME=value``, or a map from names
    to values, each of which may be a text, a number, a list, or a map with the value in it."""
    ARGUMENTS = auto()
    """A list of texts, in which a flag may have its value in the next; or a text. A map there has variables."""


PLACES: Final[Mapping[str, tuple[Preset, Reading]]] = MappingProxyType(
    {
        "env": (Preset.ENV, Reading.VARIABLES),
        "args": (Preset.ARGUMENTS, Reading.ARGUMENTS),
        "command": (Preset.ARGUMENTS, Reading.ARGUMENTS),
    }
)
"""By the name of a member, in every resource and at any depth."""

NAMED: Final = ("name", "Name", "key")
"""Members with the name of the variable that an item of a list is. The first that holds a text counts."""
VALUES: Final = ("value", "values", "default", "Value")
"""Members with its value."""
REFERRING: Final = ("From", "Ref", "Selector")
"""The ends of names of members that say where a value is found. What they name is no credential."""

TOKEN_NAMES: Final = ("oken", "OKEN")
"""The ends of names of members that may hold a bootstrap token."""
BOOTSTRAP_TOKEN: Final = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")

RELEASE: Final = (FieldPath(("data", "release")), FieldPath(("binaryData",)))
"""Where a ConfigMap of Helm has its release."""

_TYPED_GROUPS = frozenset({"", "apps", "batch"})
_FREE_FORM = frozenset({"configmaps", "controllerrevisions.apps"})


def has_free_members(resource: Resource) -> bool:
    """Whether the resource's objects may have members of any name and shape. The other types of these groups have lists
    alone in the places of the table, and no member that holds a token."""
    return resource.group not in _TYPED_GROUPS or resource.name in _FREE_FORM
