"""Objects of many shapes with secrets in the places that redaction knows: each place of its table, in each shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from bridge.transform.places import PLACES, Reading

Secret: TypeAlias = Callable[[], str]
"""A new secret at each call: a word of ``[a-z0-9]``, at least eight."""
Shape: TypeAlias = Callable[[str, Secret], Any]
"""A value for the place, from the name of a variable that holds a credential."""

HARMLESS: Final = {"name": "PORT", "value": "8080"}
_WORD = "c2lnbmF0dXJlMDEyMzQ1"

TYPED_SHAPES: Mapping[Reading, Mapping[str, Shape]] = {
    Reading.VARIABLES: {
        "named": lambda name, secret: [HARMLESS, {"name": name, "value": secret()}, HARMLESS],
        "value first": lambda name, secret: [{"value": secret(), "name": name}],
        "like json": lambda name, secret: [{"name": "A", "value": '[{"a":[]}]'}, {"name": name, "value": secret()}],
        "like ends": lambda name, secret: [
            *({"name": end, "value": "a"} for end in (']"', "]\\", "]\n")),
            {"name": name, "value": secret()},
        ],
        "by the form": lambda _, secret: [{"name": "SETTING", "value": text} for text in texts(secret)],
    },
    Reading.ARGUMENTS: {
        "next": lambda name, secret: ["run", f"--{name.lower()}", secret(), "-v"],
        "flag": lambda name, secret: [f"--{name}={secret()}"],
        "script": lambda name, secret: ["sh", "-c", f"{name}={secret()} run --{name} '{secret()}'"],
        "first": lambda name, secret: [f"{name}={secret()} run --v=2"],
        "header": lambda _, secret: ["-H", f"Authorization: Bearer {secret()}", f"Authorization: {secret()}"],
        "by the form": lambda _, secret: texts(secret),
    },
}
"""As the types of Kubernetes have them."""

FREE_SHAPES: Mapping[Reading, Mapping[str, Shape]] = {
    Reading.VARIABLES: {
        **TYPED_SHAPES[Reading.VARIABLES],
        "docker": lambda name, secret: ["PORT=8080", f"{name}={secret()} {secret()}", 5],
        "map": lambda name, secret: {"PORT": 8080, name: secret()},
        "map of maps": lambda name, secret: {name: {"value": secret(), "more": {"a": [secret()]}}},
        "map of lists": lambda name, secret: {name: [secret(), {"value": secret()}, [secret()]]},
        "map of groups": lambda name, secret: {
            "production": {name: secret()},
            "test": [{"name": name, "value": secret()}],
        },
        "one variable": lambda name, secret: {"name": name, "value": secret()},
        "other members": lambda name, secret: [{"key": name, "value": secret()}, {"Name": name, "Value": secret()}],
        "lists": lambda name, secret: [{"name": name, "value": [secret(), {"x": secret()}]}, [{name: secret()}]],
        "values": lambda name, secret: [{"name": name, "default": secret(), "values": [secret()]}],
        "within a value": lambda name, secret: {name: {"value": {"env": [f"{name}={secret()}"]}}},
        "beside a value": lambda name, secret: [
            {"name": name, "value": secret(), "more": [1, {"args": [f"--{name}={secret()}"]}]}
        ],
        "text": lambda name, secret: f"PORT=1 {name}={secret()}",
        "inner": lambda name, secret: {
            "A": {"env": [{"name": name, "value": secret()}], "args": [f"--{name}={secret()}"]}
        },
    },
    Reading.ARGUMENTS: {
        **TYPED_SHAPES[Reading.ARGUMENTS],
        "text": lambda name, secret: f"run --{name} {secret()}",
        "map": lambda name, secret: {name: secret(), "port": 80},
        "mixed": lambda name, secret: [1, f"--{name}={secret()}", {"env": {name: secret()}}],
        "items": lambda name, secret: [
            "run",
            {"name": name, "value": secret()},
            [f"--{name}", secret()],
            {name: secret()},
        ],
    },
}
"""As custom resources may have them."""


def texts(secret: Secret) -> list[str]:
    """Texts that show a credential by its form."""
    return [
        f"postgres://shop:{secret()}@db/shop",
        f"Server=a;Password={secret()};x=1",
        f'{{"password":"{secret()}"}}',
        f"eyJhbGciOiJIUzI1NiJ9.eyJ{secret()}.{_WORD}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{secret()}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\\n{secret()}\\n-----END PRIVATE KEY-----",
        f"ghp_{secret():0<36}",
        f"glpat-{secret():0<20}",
        f"xoxb-{secret():0<12}",
        f"Bearer {secret()}",
    ]


def typed(secret: Secret) -> dict[str, Any]:
    """Members of the specification of a built-in type."""
    return _planted(TYPED_SHAPES, secret)


def free(secret: Secret) -> dict[str, Any]:
    """Members of a custom resource, or of another object of any shape."""
    token = f"{secret():0<6.6}.{secret():0<16.16}"
    return {
        **_planted(FREE_SHAPES, secret),
        "token": {"token": token},
        "deep": {"bootstrapToken": token, "BOOTSTRAP_TOKEN": token},
    }


def _planted(shapes: Mapping[Reading, Mapping[str, Shape]], secret: Secret) -> dict[str, Any]:
    return {
        f"{place} {shape}": {place: make("DB_PASSWORD", secret)}
        for place, (_, reading) in PLACES.items()
        for shape, make in shapes[reading].items()
    }


def in_annotations(secret: Secret) -> dict[str, str]:
    """Annotations with a token, and with copies of the object."""
    return {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": secret()}),
        "objectset.rio.cattle.io/applied": secret(),
        "example.com/auth-token": secret(),
        "openshift.io/token-secret.value": secret(),
    }


def _respelt(thing: Any, key: str, name_as: Callable[[str], str] = str) -> str:
    """Compact, but for the keys of places."""
    text = SPELLINGS["compact"](thing)
    for name in (*PLACES, "token", "bootstrapToken", "BOOTSTRAP_TOKEN"):
        text = text.replace(f'"{name}":', key.format(name_as(name)))
    return text


SPELLINGS: Mapping[str, Callable[[Any], str]] = {
    "compact": partial(json.dumps, separators=(",", ":")),
    "compact, not ASCII": partial(json.dumps, separators=(",", ":"), ensure_ascii=False),
    "spaced": partial(json.dumps, separators=(" , ", " : ")),
    "indented": partial(json.dumps, indent=1),
    "blanks in front of colons": lambda thing: _respelt(thing, '"{}" \n:'),
    "blanks behind colons": lambda thing: _respelt(thing, '"{}": \t'),
    "many blanks": lambda thing: _respelt(thing, '"{}"' + " " * 100 + ":" + " " * 100),
    "escaped variables": lambda thing: SPELLINGS["compact"](thing).replace("DB_PASSWORD", "\\u0044B_PASSWORD"),
    "escaped names": lambda thing: _respelt(thing, '"{}":', lambda name: f"\\u{ord(name[0]):04x}{name[1:]}"),
}
"""JSON as servers may write it."""
