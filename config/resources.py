"""Which objects an operator asks for: kubectl's names for resources, and the part of each that is watched.

Syntax alone is judged here. What a name means is known when a cluster has been asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_RESOURCE = re.compile(rf"\*|(?:\*|{_LABEL})(?:\.{_LABEL})*")
_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?")

_KEY = r"(?:[a-zA-Z0-9.-]+/)?[a-zA-Z0-9](?:[-\w.]*[a-zA-Z0-9])?"
_VALUE = r"(?:[a-zA-Z0-9](?:[-\w.]*[a-zA-Z0-9])?)?"
_SET = rf"\(\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\)"
_REQUIREMENT = rf"(?:!?\s*{_KEY}|{_KEY}\s*(?:==?|!=|<|>)\s*{_VALUE}|{_KEY}\s+(?:in|notin)\s*{_SET})"
_LABEL_SELECTOR = re.compile(rf"\s*{_REQUIREMENT}(?:\s*,\s*{_REQUIREMENT})*\s*", re.ASCII)
_FIELD_SELECTOR = re.compile(r"\s*[\w.\[\]/-]+\s*(?:==?|!=)[^,]*(?:,\s*[\w.\[\]/-]+\s*(?:==?|!=)[^,]*)*", re.ASCII)


def _resource_name(name: str) -> str:
    lower = name.lower()  # kubectl takes a kind, such as StatefulSet, as well
    if not _RESOURCE.fullmatch(lower):
        hint = " (subresources are not watched)" if "/" in name else ""
        raise ValueError(
            f"kubectl's name of a resource is expected{hint}: pods, deployments.apps, *.cert-manager.io, *"
        )
    return lower


def _label_selector(selector: str) -> str:
    if selector and not _LABEL_SELECTOR.fullmatch(selector):
        raise ValueError("a label selector is expected: tier=web,env in (prod,dev),!canary")
    return selector


def _field_selector(selector: str) -> str:
    if selector and not _FIELD_SELECTOR.fullmatch(selector):
        raise ValueError("a field selector is expected: metadata.name=web,status.phase!=Running")
    return selector


def _named_once(namespaces: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted({name for name in namespaces if namespaces.count(name) > 1})
    if twice:
        raise ValueError(f"each namespace is named once; twice: {', '.join(twice)}")
    return namespaces


Namespace: TypeAlias = Annotated[str, StringConstraints(pattern=rf"^{_LABEL}$", max_length=63)]


class ResourceSettings(BaseModel):
    """Objects of one resource, or of all that a wildcard covers, in some namespaces or in all of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: Annotated[str, AfterValidator(_resource_name)] = Field(
        description="The resource as kubectl names it: pods, deployments.apps, certificates.v1.cert-manager.io; "
        "*.cert-manager.io is every resource of a group, * every resource of the cluster.",
        examples=["deployments.apps"],
    )
    namespaces: Annotated[tuple[Namespace, ...], AfterValidator(_named_once)] = Field(
        default=(),
        description="Only these namespaces, one watch each; empty for all of them in one watch. Ignored by resources "
        "that have no namespace.",
        examples=[["shop"]],
    )
    label_selector: Annotated[str, AfterValidator(_label_selector)] = Field(
        default="",
        description="Only objects with these labels, in the syntax of kubectl -l. An object that loses the labels is "
        "reported as deleted.",
        examples=["tier=web"],
    )
    field_selector: Annotated[str, AfterValidator(_field_selector)] = Field(
        default="",
        description="Only objects with these fields, in the syntax of kubectl --field-selector. Which fields can be "
        "asked for depends on the resource; metadata.name and metadata.namespace always can.",
        examples=["metadata.name=web"],
    )


def _named_alone(value: Any) -> Any:
    return {"resource": value} if isinstance(value, str) else value


ResourceEntry: TypeAlias = Annotated[
    ResourceSettings, BeforeValidator(_named_alone, json_schema_input_type=str | ResourceSettings)
]
"""A name alone, or a mapping that says more."""


def overlaps(entries: Sequence[ResourceSettings]) -> Iterator[tuple[int, int]]:
    """Places of two entries that may mean the same object in different scopes. Such an object would be exported twice,
    and its deltas would have no order: it must belong to one entry. Selectors do not keep two entries apart, since
    labels and fields change; only different namespaces and different fixed names do."""
    for (here, one), (there, other) in combinations(enumerate(entries), 2):
        if _same_resource(one, other) and _same_place(one, other):
            yield here, there


def _same_resource(one: ResourceSettings, other: ResourceSettings) -> bool:
    (one_plural, one_group), (other_plural, other_group) = _parts(one.resource), _parts(other.resource)
    wildcard = "*" in (one_plural, other_plural)
    if wildcard and one.resource != other.resource and _scope(one) == _scope(other):
        return False  # One watch serves both; and a name may add what the wildcard leaves out.
    if "*" in (one.resource, other.resource):
        return True
    return one_group == other_group and (one_plural == other_plural or wildcard)


def _scope(entry: ResourceSettings) -> tuple[object, ...]:
    return set(entry.namespaces), entry.label_selector, entry.field_selector


def _parts(name: str) -> tuple[str, str]:
    """Plural and group of a resource's name; the version says nothing about which object is meant."""
    plural, _, group = name.partition(".")
    version, _, rest = group.partition(".")
    return plural, rest if _VERSION.fullmatch(version) else group


def _same_place(one: ResourceSettings, other: ResourceSettings) -> bool:
    if one.namespaces and other.namespaces and not set(one.namespaces) & set(other.namespaces):
        return False
    names = {_fixed_name(one.field_selector), _fixed_name(other.field_selector)}
    return None in names or len(names) == 1


def _fixed_name(field_selector: str) -> str | None:
    for term in field_selector.split(","):
        field, _, value = term.partition("=")
        if field.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return None
