"""Declares which resources are watched (``resources``, by kubectl's names, and the watched part of each), and which
values must not leave and how they are replaced (``redaction``).

Only the syntax is checked here. The meaning of a name depends on the cluster (bridge.kube.catalogue).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.policies import RedactionMode, RedactionPreset, RedactionRule
from bridge.model.primitives.field_path import PATTERN, FieldPath
from bridge.model.resource import ResourceName as ParsedName
from bridge.model.resource import Scope
from config.values import Flag, Matching, Section, each_once

# ── Names and selectors ──────────────────────────────────────────────────────

_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_KIND = "[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?"  # kubectl accepts a kind too, such as StatefulSet.

_BLANK = r"[ \t\r\n]"
_KEY = "(?:[a-zA-Z0-9.-]+/)?[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?"
_VALUE = "[a-zA-Z0-9](?:[-a-zA-Z0-9_.]*[a-zA-Z0-9])?"
# No blank can be read in two ways, with a value or without: else a selector that is wrong at its end takes for ever.
_SET = rf"\({_BLANK}*(?:{_VALUE}{_BLANK}*)?(?:,{_BLANK}*(?:{_VALUE}{_BLANK}*)?)*\)"
_REQUIREMENT = (
    rf"(?:(?:!{_BLANK}*)?{_KEY}|{_KEY}{_BLANK}*(?:==?|!=|<|>)(?:{_BLANK}*{_VALUE})?"
    rf"|{_KEY}{_BLANK}+(?:in|notin){_BLANK}*{_SET})"
)
_TERM = rf"{_BLANK}*[a-zA-Z0-9_.\[\]/-]+{_BLANK}*!?=[^,]*"


def _why_no_name(name: str) -> str:
    hint = " (subresources are not watched)" if "/" in name else ""
    return f"kubectl's name of a resource is expected{hint}: pods, deployments.apps, *.cert-manager.io, *"


ResourceName: TypeAlias = Annotated[
    str,
    Matching(rf"\*|(?:\*|{_KIND})(?:\.{_KIND})*", _why_no_name, longest=512),
    AfterValidator(str.lower),
]
LabelSelector: TypeAlias = Annotated[
    str,
    Matching(
        rf"(?:{_BLANK}*{_REQUIREMENT}(?:{_BLANK}*,{_BLANK}*{_REQUIREMENT})*{_BLANK}*)?",
        "a label selector is expected: tier=web,env in (prod,dev),!canary",
    ),
]
FieldSelector: TypeAlias = Annotated[
    str,
    Matching(f"(?:{_TERM}(?:,{_TERM})*)?", "a field selector is expected: metadata.name=web,status.phase!=Running"),
]
Namespace: TypeAlias = Annotated[
    str, Matching(_LABEL, "the name of a namespace is expected: small letters, digits and '-'", longest=63)
]


Namespaces: TypeAlias = Annotated[tuple[Namespace, ...], each_once("namespace")]


# ── Paths and rules ──────────────────────────────────────────────────────────

_IDENTITY = tuple(
    FieldPath.parsed(path)
    for path in (
        "kind",
        "apiVersion",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
    )
)


def _checked(text: str) -> str:
    path = FieldPath.parsed(text)
    if any(path.meets(identity) for identity in _IDENTITY):
        raise ValueError(
            "the path leads to kind, apiVersion, metadata.name, .namespace, .uid or .resourceVersion, by which "
            "consumers know the object; name a member beside them, such as metadata.annotations.*"
        )
    return text


MemberPath: TypeAlias = Annotated[
    str,
    Matching(
        PATTERN,
        "a path is expected: spec.password, spec.containers[*].env[*].value, data.*, metadata.annotations['a.b/c']",
        longest=1024,
    ),
    AfterValidator(_checked),
]


class RedactRuleSettings(Section):
    """Paths of values that must not leave, and what stands in their place."""

    paths: tuple[MemberPath, ...] = Field(
        min_length=1,
        description="Paths from the root of the object. * is every member of a map or item of a list; a name with a "
        "dot or a slash stands in quotes and brackets. A path covers all values below it. A value where the path "
        "expects a map is redacted itself.",
        examples=[["spec.keystores.*.password", "metadata.annotations['example.com/token']"]],
    )
    mode: RedactionMode = Field(
        default=RedactionMode.HMAC,
        description="hmac: a digest, as in Secrets. remove: value and name are left out; an item of a list becomes "
        "null. mask: the text [redacted].",
    )


def _path_alone(value: Any) -> Any:
    return {"paths": [value]} if isinstance(value, str) else value


RedactEntry: TypeAlias = Annotated[
    RedactRuleSettings, BeforeValidator(_path_alone, json_schema_input_type=MemberPath | RedactRuleSettings)
]
"""A path alone, or a mapping."""


def rules_of(entries: Iterable[RedactRuleSettings]) -> tuple[RedactionRule, ...]:
    return tuple(RedactionRule(tuple(map(FieldPath.parsed, entry.paths)), entry.mode) for entry in entries)


# ── Resources ────────────────────────────────────────────────────────────────


class ResourceSettings(Section):
    """Objects of a resource, or of all resources that a wildcard covers, in some namespaces or in all."""

    resource: ResourceName = Field(
        description="kubectl's name of the resource: pods, deployments.apps, certificates.v1.cert-manager.io; "
        "*.cert-manager.io is every resource of a group, * every resource of the cluster.",
        examples=["deployments.apps"],
    )
    namespaces: Namespaces = Field(
        default=(),
        json_schema_extra={"uniqueItems": True},
        description="Only these namespaces, with a watch for each; empty for all, in one watch. Resources without "
        "namespaces ignore it.",
        examples=[["shop"]],
    )
    label_selector: LabelSelector = Field(
        default="",
        description="Only objects with these labels, as for kubectl -l. One that loses them is exported as deleted.",
        examples=["tier=web"],
    )
    field_selector: FieldSelector = Field(
        default="",
        description="Only objects with these fields, as for kubectl --field-selector. Every resource has "
        "metadata.name and metadata.namespace, and some have others.",
        examples=["metadata.name=web"],
    )

    redact: tuple[RedactEntry, ...] = Field(
        default=(),
        description="Values that must not leave, as in redaction.rules, for every object of the resource, also in "
        "other entries of it.",
        examples=[["spec.keystores.*.password"]],
    )

    ignore_changes: tuple[MemberPath, ...] = Field(
        default=(),
        description="An update of these paths alone is not exported; the next exported one has their newest values. A "
        "change of the spec also changes metadata.generation.",
        examples=[["status.conditions[*].lastHeartbeatTime", "metadata.annotations['example.com/renewed-at']"]],
    )

    recover_steps: Flag = Field(
        default=True,
        description="See watch.recover_steps. false suits resources whose objects change several times a second.",
    )

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """A scope for each namespace, or a single scope for all namespaces."""
        return tuple(Scope(each, self.label_selector, self.field_selector) for each in self.namespaces or (None,))


def named_alone(value: Any) -> Any:
    """An entry that is a name has no other options."""
    if not isinstance(value, str | Mapping | Section):
        raise ValueError("the name of a resource, or a mapping, is expected")
    return {"resource": value} if isinstance(value, str) else value


ResourceEntry: TypeAlias = Annotated[
    ResourceSettings, BeforeValidator(named_alone, json_schema_input_type=ResourceName | ResourceSettings)
]
"""A name alone, or a mapping with further options."""


def overlaps(entries: Sequence[ResourceSettings]) -> Iterator[tuple[int, int]]:
    """Indexes of two entries that may mean the same object in different scopes. Such an object would be exported twice,
    and its deltas would have no order, so an object must belong to a single entry (see ``Scope.meets``)."""
    for (here, one), (there, other) in combinations(enumerate(entries), 2):
        if _same_resource(one, other) and any(ours.meets(theirs) for ours, theirs in product(one.scopes, other.scopes)):
            yield here, there


def _same_resource(one: ResourceSettings, other: ResourceSettings) -> bool:
    ours, theirs = ParsedName.parsed(one.resource), ParsedName.parsed(other.resource)
    wildcard = ours.is_wildcard or theirs.is_wildcard
    if wildcard and one.resource != other.resource and set(one.scopes) == set(other.scopes):
        return False  # One watch serves both, and the name may stand for a resource that the wildcard excludes.
    if "*" in (one.resource, other.resource):
        return True
    # Versions do not count: every version serves the same objects.
    return ours.group == theirs.group and (ours.word == theirs.word or wildcard)


# ── Redaction ────────────────────────────────────────────────────────────────


class RedactionSettings(Section):
    """The values that must not leave, and how they are replaced."""

    key_file: Path | None = Field(
        default=None,
        description="The key of the digests: at least 32 bytes, such as the output of `openssl rand -hex 32`. Without "
        "it, the bridge makes a key in state.directory, which is lost with that.",
        examples=["/run/secrets/redaction.key"],
    )
    former_key_files: tuple[Path, ...] = Field(
        default=(),
        max_length=4,
        description="Former keys, while a key is renewed: each redacted value has a digest under each. Name no key "
        "that others may know.",
        examples=[["/run/secrets/redaction.key.2026"]],
    )
    presets: tuple[RedactionPreset, ...] = Field(
        default=tuple(RedactionPreset),
        description="Where digests replace credentials beside Secrets, in every resource: docs/guarantees.md says what "
        "each preset finds. Secrets, and kubectl's last-applied-configuration, need none.",
    )
    rules: tuple[RedactEntry, ...] = Field(
        default=(),
        description="Values of every resource that must not leave: paths, or mappings of paths and a mode.",
        examples=[["spec.password", {"paths": ["data.*"], "mode": "mask"}]],
    )
