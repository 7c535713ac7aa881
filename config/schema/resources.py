"""Declares which resources are watched (``resources``, by kubectl's names, and the watched part of each), and which
values must not leave and how they are replaced (``redaction``).

Only the syntax is checked here. The meaning of a name depends on the cluster (bridge.kube.discovery.names).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from bridge.model.policies import RedactionMode, RedactionPreset, RedactionRule
from bridge.model.primitives.field_path import PATTERN, FieldPath
from bridge.model.resource import ResourceName as ParsedName
from bridge.model.resource import Scope
from config.values import Flag, Matching, Section

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


def _named_once(namespaces: tuple[str, ...]) -> tuple[str, ...]:
    twice = sorted(name for name, count in Counter(namespaces).items() if count > 1)
    if twice:
        raise ValueError(f"each namespace may be named once; named twice: {', '.join(twice)}")
    return namespaces


Namespaces: TypeAlias = Annotated[tuple[Namespace, ...], AfterValidator(_named_once)]


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
        description="Paths from the root of the object. * is every member of a map or every item of a list; a name "
        "with a dot or a slash stands in quotes and brackets. A path to a map or a list covers all values in it. A "
        "value that stands where the path expects a map is redacted itself.",
        examples=[["spec.keystores.*.password", "metadata.annotations['example.com/token']"]],
    )
    mode: RedactionMode = Field(
        default=RedactionMode.HMAC,
        description="hmac: a digest, as in Secrets, so that readers see a change of the value. remove: the value is "
        "left out, with its name; an item of a list becomes null. mask: the text [redacted].",
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


class ResourceSettings(BaseModel):
    """Objects of a resource, or of all resources that a wildcard covers, in some namespaces or in all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    resource: ResourceName = Field(
        description="The resource as kubectl names it: pods, deployments.apps, certificates.v1.cert-manager.io; "
        "*.cert-manager.io is every resource of a group, * every resource of the cluster.",
        examples=["deployments.apps"],
    )
    namespaces: Namespaces = Field(
        default=(),
        json_schema_extra={"uniqueItems": True},
        description="Only these namespaces, with a watch for each; empty for all namespaces in a single watch. "
        "Resources without namespaces ignore it.",
        examples=[["shop"]],
    )
    label_selector: LabelSelector = Field(
        default="",
        description="Only objects with these labels, in the syntax of kubectl -l. An object that loses the labels is "
        "exported as deleted.",
        examples=["tier=web"],
    )
    field_selector: FieldSelector = Field(
        default="",
        description="Only objects with these fields, in the syntax of kubectl --field-selector. Which fields can be "
        "asked for depends on the resource; metadata.name and metadata.namespace always can.",
        examples=["metadata.name=web"],
    )

    redact: tuple[RedactEntry, ...] = Field(
        default=(),
        description="Values of these objects that must not leave: paths, or mappings of paths and a mode, as in "
        "redaction.rules. They hold for every object of the resource, also in other entries of it.",
        examples=[["spec.keystores.*.password"]],
    )

    ignore_changes: tuple[MemberPath, ...] = Field(
        default=(),
        description="Paths whose changes are no news: an update in which nothing else changed is not exported. The "
        "next exported update has the newest values. A change of the spec also changes metadata.generation.",
        examples=[["status.conditions[*].lastHeartbeatTime", "metadata.annotations['example.com/renewed-at']"]],
    )

    recover_steps: Flag = Field(
        default=True,
        description="Whether steps that no watch announced are looked for, as watch.recover_steps has it. false suits "
        "resources whose objects change several times a second.",
    )

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """A scope for each namespace, or a single scope for all namespaces."""
        return tuple(Scope(each, self.label_selector, self.field_selector) for each in self.namespaces or (None,))


def _named_alone(value: Any) -> Any:
    return {"resource": value} if isinstance(value, str) else value


ResourceEntry: TypeAlias = Annotated[
    ResourceSettings, BeforeValidator(_named_alone, json_schema_input_type=ResourceName | ResourceSettings)
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
        description="A file with the key of the digests that replace redacted values: 32 bytes at least, such as"
        " the output of `openssl rand -hex 32`. Without the option, the bridge creates a key in"
        " state.directory, which is lost with that directory.",
        examples=["/run/secrets/redaction.key"],
    )
    former_key_files: tuple[Path, ...] = Field(
        default=(),
        max_length=4,
        description="Files with former keys, while a key is renewed. Every redacted value then has a digest under"
        " each key, that of key_file first, with a blank in between: readers compare digests with the"
        " same key id. Take a key out again when readers have seen the new digests, and name no key that"
        " others may know.",
        examples=[["/run/secrets/redaction.key.2026"]],
    )
    presets: tuple[RedactionPreset, ...] = Field(
        default=tuple(RedactionPreset),
        description="Places beside Secrets where credentials are known to stand; digests replace them in every "
        "resource. env: values of env, in lists and maps, by the name of the variable (with password, passphrase, "
        "secret, token, credential, api_key, access_key, private_key and the like in it, or pwd, pass, pw, key, auth, "
        "cookie, dsn, jwt, pat or pin as its last word; but not names that end in file, path, name, url, id, ttl, type "
        "and the like, nor public_key, max_tokens), and credentials that a value shows by its form: passwords in URLs "
        "and connection strings, JSON Web Tokens, private keys in PEM, tokens of GitHub, GitLab and Slack. arguments: "
        "the same in args and command (--password=x, --token x, PASSWORD=x, Authorization: Bearer x). References such "
        "as $(NAME) stay. annotations: annotations whose last word is token; copies of the whole object (last-applied "
        "of kubectl and others, Rancher's applied, kapp's original, kopf's last-handled-configuration) are left out. "
        "bootstrap_tokens: members whose name ends in token, with a value like abcdef.0123456789abcdef, in ConfigMaps "
        "and in resources whose members Kubernetes does not define. helm_releases: the data of Helm's releases in "
        "ConfigMaps. Always on, without a preset: Secrets (so Helm's releases and bootstrap tokens in Secrets too), "
        "and kubectl's last-applied-configuration.",
    )
    rules: tuple[RedactEntry, ...] = Field(
        default=(),
        description="Values of every resource that must not leave: paths, or mappings of paths and a mode. For one "
        "resource alone: resources[].redact.",
        examples=[["spec.password", {"paths": ["data.*"], "mode": "mask"}]],
    )
