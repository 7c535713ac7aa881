"""The section ``redaction``: the values that must not leave, and how they are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from bridge.model.policies import RedactionMode, RedactionPreset, RedactionRule
from bridge.model.primitives.field_path import PATTERN, FieldPath
from config.values import Matching, Section

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
