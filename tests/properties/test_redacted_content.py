"""What redaction removes is in no format, no patch, no made data and no reason of a rejection."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from bridge.model.change import Op
from bridge.model.formats.cloudevent import HeaderNames
from bridge.model.formats.content import Include
from bridge.model.object import ApiObject
from bridge.model.policies import RedactionMode, RedactionRule
from bridge.model.primitives.field_path import FieldPath
from bridge.model.record import Delta
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction, redact_for_sink
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import transform_for
from bridge.views.content_maker import content_makers
from bridge.views.language import Cel
from sinks.base import EventOptions
from sinks.webhook.encode import WebhookEncoder
from sinks.webhook.options import WebhookOptions
from tests.kit import planted
from tests.kit.records import PODS, a_delta

SECRETS = Resource("", "v1", "secrets", "Secret", True)
NAMES = HeaderNames.prefixed("ce-", datacontenttype="content-type")
EVERYTHING = "{'now': object, 'was': oldObject, 'changed': changed, 'of': op}"
FORMS: list[dict[str, Any]] = [
    {"format": "cloudevents"},
    {"format": "envelope", "include": list(Include)},
    {"format": "row", "include": list(Include)},
    {"format": "row", "include": list(Include), "row": {"object": "string"}},
    {"format": "raw"},
    {"format": "raw", "data": EVERYTHING},
    {"format": "cloudevents", "data": EVERYTHING},
    {"format": "raw", "data": "[object.spec.password]", "url": "http://h/{object.spec.password}?x={object.sink}"},
    {"format": "raw", "data": "[{}]", "headers": {"X-A": "{object.sink.x}", "X-B": "{object.spec.password.y}"}},
]

secrets = st.integers(0, 10**6).map(lambda number: f"hunter{number:06}") | st.text(
    "\"'\\é\u2028/ ", min_size=3, max_size=5
).map(lambda odd: f"hunter{odd}2")


@st.composite
def states(draw: st.DrawFn) -> tuple[dict[str, Any], list[str]]:
    """An object, and the secrets in it."""
    found: list[str] = []

    def secret() -> str:
        found.append(draw(secrets))
        return found[-1]

    def value() -> Any:
        match draw(st.integers(0, 2)):
            case 0:
                return secret()
            case 1:
                return [secret(), {"a": secret()}]
        return [[secret()]]

    def word() -> str:
        found.append(f"hunter{len(found):03}{draw(st.integers(0, 999)):03}")
        return found[-1]

    members = planted.typed(word)
    shapes = draw(st.lists(st.sampled_from(sorted(members)), max_size=3))
    env = [{"name": "DB_PASSWORD", "value": secret()} for _ in range(draw(st.integers(0, 2)))]
    containers = [{"name": "web", "env": env, "args": ["--token", secret()]}, *(members[each] for each in shapes)]
    thing: dict[str, Any] = {"spec": {"containers": containers}, "open": draw(st.integers(0, 3))}
    if draw(st.booleans()):
        thing["spec"]["password"] = value()
    if draw(st.booleans()):
        thing["sink"] = value()
    thing["data"] = {
        name: base64.b64encode(secret().encode()).decode() for name in draw(st.sets(st.sampled_from("abc")))
    }
    return thing, found


def rule(path: str, mode: RedactionMode) -> RedactionRule:
    return RedactionRule((FieldPath.parsed(path),), mode)


KEYS = (RedactionKey(b"k" * 32), RedactionKey(b"f" * 32))
modes = st.sampled_from(list(RedactionMode))


def an_object(thing: dict[str, Any], version: str) -> ApiObject:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": version}
    body = json.dumps(
        {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **thing}, separators=(",", ":")
    ).encode()
    return ApiObject("shop/web", "u", version, body)


def outputs(delta: Delta, options: EventOptions) -> list[bytes]:
    """All that a sink with these options makes of the record; of a record without content, the reason."""
    request = options.content()
    record: Any = delta
    if request.is_made:
        record = content_makers({"s": request}, "prod", cache(Cel))["s"](delta)
        if record.content.failure:
            return [record.content.failure.encode()]
    events = options.events("prod")
    found = [events.data(record), events.structured(record), json.dumps(events.encoded_headers(record, NAMES)).encode()]
    if isinstance(options, WebhookOptions):
        try:
            message = WebhookEncoder(events, options).encode(record)
        except ValueError as error:
            return [*found, str(error).encode()]
        assert message is not None
        found += [message.body, message.route.target.encode(), json.dumps(message.headers).encode()]
    return found


@given(st.sampled_from([PODS, SECRETS]), states(), states(), modes, modes, st.sampled_from([*Op]), st.data())
def test_no_secret_is_in_what_a_sink_makes(
    resource: Resource,
    earlier: tuple[dict[str, Any], list[str]],
    later: tuple[dict[str, Any], list[str]],
    mode: RedactionMode,
    own_mode: RedactionMode,
    op: Op,
    data: st.DataObject,
) -> None:
    rules = (rule("spec.password", mode), rule("data.*", mode))
    transform = transform_for(resource, Redaction(KEYS, rules=rules))
    before, after = (
        transform(an_object(thing, version)).body for version, (thing, _) in (("1", earlier), ("2", later))
    )
    delta = a_delta(resource=resource, op=op, body=after, before=before)
    redacted = redact_for_sink([rule("sink", own_mode)], Redaction(KEYS))(delta)
    assert isinstance(redacted, Delta)
    options = WebhookOptions.model_validate({"url": "http://h/", **data.draw(st.sampled_from(FORMS))})

    hidden = {form for secret in (*earlier[1], *later[1]) for form in _forms(secret)}
    for output in outputs(redacted, options):
        assert [each for each in hidden if each in output] == []


def _forms(secret: str) -> list[bytes]:
    """The secret as it may be written in JSON or in a URL, and in base64."""
    plain = secret.encode()
    return [
        plain,
        base64.b64encode(plain),
        json.dumps(secret)[1:-1].encode(),
        json.dumps(secret, ensure_ascii=False)[1:-1].encode(),
    ]


@example({"spec": {"password": "hunter000001"}})
@given(st.fixed_dictionaries({"spec": st.fixed_dictionaries({"password": secrets})}))
def test_without_redaction_the_secret_would_be_found(thing: dict[str, Any]) -> None:
    """The other property can fail."""
    body = an_object(thing, "2").body
    options = WebhookOptions.model_validate({"url": "http://h/", "format": "raw", "data": EVERYTHING})

    found = outputs(a_delta(body=body), options)
    assert any(form in output for form in _forms(thing["spec"]["password"]) for output in found)
