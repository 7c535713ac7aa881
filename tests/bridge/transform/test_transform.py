"""What leaves of an object: everything but bookkeeping, and of a Secret nothing that is secret."""

from __future__ import annotations

import base64
import hmac
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kube.wire.frames import Frames
from bridge.kube.wire.objects import read_object
from bridge.kube.wire.pages import PageReader
from bridge.model.answers import Announced, Page
from bridge.model.object import LAST_APPLIED, ApiObject
from bridge.model.resource import Resource
from bridge.transform.redaction import Redaction
from bridge.transform.redaction_key import RedactionKey
from bridge.transform.transform import stripped, transform_for
from tests.bridge.transform.leaving import KEY, METADATA, REDACTION, SECRET, SECRETS
from tests.kit.objects import BEYOND_ANY_STACK
from tests.kit.records import PODS

NODE_METRICS = Resource("metrics.example", "v1", "nodes", "NodeMetrics", namespaced=True)
DIGEST = re.compile(rf"hmac-sha256:{KEY.id}:[0-9a-f]{{64}}")


def an_object(manifest: Any) -> ApiObject:
    body = manifest if isinstance(manifest, bytes) else json.dumps(manifest, separators=(",", ":")).encode()
    return ApiObject("shop/web", "uid-1", "7", body)


def leaves(resource: Resource, manifest: Any, key: RedactionKey = KEY) -> Any:
    return json.loads(transform_for(resource, Redaction((key,)))(an_object(manifest)).body)


def a_secret(**members: Any) -> dict[str, Any]:
    return {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "web", "namespace": "shop"}, **members}


def test_an_object_with_nothing_to_strip_keeps_the_same_bytes() -> None:
    pod = an_object({"metadata": {"name": "web"}})

    assert transform_for(PODS, REDACTION)(pod) is pod


def test_a_stripped_object_is_not_searched_but_a_secret_redacted() -> None:
    body = json.dumps(a_secret(data={"password": SECRET}), separators=(",", ":")).encode()
    read = ApiObject("shop/web", "uid-1", "7", body, stripped=True)

    assert transform_for(PODS, REDACTION)(read) is read
    assert SECRET not in transform_for(SECRETS, REDACTION)(read).body.decode()


@pytest.mark.parametrize(
    "said",
    [
        {"kind": "Secret", "apiVersion": "v1"},
        {"kind": "Secret", "apiVersion": "v2"},
        {"kind": "Secret"},
        {"kind": "\\u0053ecret", "apiVersion": "v1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("way", ["listed", "watched"])
def test_an_object_of_kind_secret_is_redacted_in_any_resource(way: str, said: dict[str, str]) -> None:
    body = json.dumps(said | {"metadata": METADATA, "data": {"password": SECRET}}, separators=(",", ":"))
    body = body.replace("\\\\u", "\\u")
    if way == "listed":
        read = read_object(body.encode(), NODE_METRICS, managed_fields=False)
    else:
        line = b'{"type":"ADDED","object":%b}\n' % body.encode()
        (announced,) = Frames(NODE_METRICS, managed_fields=False).feed(line)
        assert isinstance(announced, Announced)
        ((_, read),) = announced.events
    assert isinstance(read, ApiObject)

    left = transform_for(NODE_METRICS, REDACTION)(read).body.decode()

    assert SECRET not in left
    assert json.loads(left)["metadata"]["name"] == "web"


@pytest.mark.parametrize("kind_first", [True, False])
def test_items_of_a_secret_list_without_kind_are_secrets(kind_first: bool) -> None:
    """So kube-apiserver writes the list of Secrets: no item says what it is."""
    named = {"kind": "SecretList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    item = {"metadata": {"name": "web", "uid": "u", "resourceVersion": "7"}, "data": {"password": SECRET}}
    items = {"items": [item, item]}
    reader = PageReader(NODE_METRICS)
    reader.feed(json.dumps({**named, **items} if kind_first else {**items, **named}).encode())
    page = reader.end()
    assert isinstance(page, Page)

    left = [transform_for(NODE_METRICS, REDACTION)(each) for each in page.objects]
    assert [each.name for each in left] == ["web", "web"]
    assert all(SECRET.encode() not in each.body for each in left)


def test_a_secret_of_another_group_is_none_of_the_core_groups() -> None:
    vaults = {"kind": "Secret", "apiVersion": "vault.example/v1", "metadata": METADATA, "data": {"a": "b"}}

    read = read_object(json.dumps(vaults, separators=(",", ":")).encode(), NODE_METRICS)

    assert isinstance(read, ApiObject)
    assert transform_for(NODE_METRICS, REDACTION)(read) is read


def test_a_secrets_values_become_digests_and_its_keys_stay() -> None:
    secret = a_secret(data={"password": SECRET}, stringData={"user": SECRET}, type="Opaque")
    secret["metadata"]["annotations"] = {"token-secret.value": SECRET, LAST_APPLIED: SECRET}
    secret["metadata"]["labels"] = {"token": SECRET}

    left = leaves(SECRETS, secret)

    assert DIGEST.fullmatch(base64.b64decode(left["data"]["password"]).decode())
    assert DIGEST.fullmatch(left["stringData"]["user"])
    assert left["type"] == "Opaque"
    assert list(left["metadata"]["annotations"]) == ["token-secret.value"]
    assert DIGEST.fullmatch(left["metadata"]["annotations"]["token-secret.value"])
    assert DIGEST.fullmatch(left["metadata"]["labels"]["token"])


def test_only_a_secrets_official_members_are_exported() -> None:
    owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "web", "uid": "u", "controller": True}
    times = {"creationTimestamp": "2026-11-22T08:00:00Z", "deletionTimestamp": None}
    metadata = METADATA | times | {"finalizers": ["kubernetes"]}
    secret = a_secret(immutable=True, type="Opaque", data=None)
    secret["metadata"] = metadata | {"ownerReferences": [owner], "managedFields": [{"manager": "kubectl"}]}
    unknown = dict.fromkeys(("binaryData", "Data", "spec", "status", "stringdata"), SECRET)
    inside = secret | {"metadata": secret["metadata"] | {"value": SECRET, "ownerReferences": [owner | unknown]}}

    expected = secret | {"metadata": metadata | {"ownerReferences": [owner]}}
    assert leaves(SECRETS, secret | unknown) == leaves(SECRETS, inside) == expected


def test_a_rotated_value_shows_and_others_look_unchanged() -> None:
    before = leaves(SECRETS, a_secret(data={"password": "b2xk", "user": "YWRtaW4="}))["data"]
    after = leaves(SECRETS, a_secret(data={"password": "bmV3", "user": "YWRtaW4="}))["data"]

    assert before["user"] == after["user"]
    assert before["password"] != after["password"]


def test_equal_values_in_two_places_do_not_look_alike() -> None:
    def digests(name: str, namespace: str) -> list[str]:
        secret = a_secret(data={"a": SECRET, "b": SECRET}, stringData={"a": SECRET})
        secret["metadata"] |= {"annotations": {"a": SECRET}, "labels": {"a": SECRET}}
        thing = ApiObject(f"{namespace}/{name}", "uid-1", "7", json.dumps(secret).encode())
        left = json.loads(transform_for(SECRETS, REDACTION)(thing).body)
        plain = [left["stringData"]["a"], left["metadata"]["annotations"]["a"], left["metadata"]["labels"]["a"]]
        return [*plain, *(base64.b64decode(left["data"][key]).decode() for key in "ab")]

    everywhere = [*digests("web", "shop"), *digests("db", "shop"), *digests("web", "pay"), *digests("p/web", "sho")]
    assert len(set(everywhere)) == len(everywhere) == 20


def test_a_digest_cannot_be_had_without_the_key() -> None:
    secret = a_secret(data={"password": SECRET})

    ours, others = leaves(SECRETS, secret), leaves(SECRETS, secret, RedactionKey(b"j" * 32))

    assert ours["data"]["password"] != others["data"]["password"]


@given(
    key=st.binary(min_size=32, max_size=200),
    parts=st.lists(st.binary(max_size=99), max_size=5),
    common=st.integers(0, 5),
)
def test_a_digest_is_the_hmac_of_its_parts(key: bytes, parts: list[bytes], common: int) -> None:
    redaction = RedactionKey(key)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)

    digest = redaction.starting_with(*parts[:common])(*parts[common:])
    assert digest == f"hmac-sha256:{redaction.id}:{hmac.new(key, message, 'sha256').hexdigest()}"


def test_a_string_looks_unchanged_however_it_is_escaped() -> None:
    plain = json.dumps(a_secret(stringData={"a": "</>"})).encode()

    assert leaves(SECRETS, plain) == leaves(SECRETS, plain.replace(b"</>", b"\\u003c\\u002f\\u003e"))


@pytest.mark.parametrize(
    "thing",
    [
        a_secret(data=[SECRET]),
        a_secret(data=SECRET),
        {"data": {"password": SECRET}},
        a_secret(data={}) | {"kind": SECRET},
        a_secret(data={}) | {"apiVersion": SECRET},
        a_secret(type={"x": SECRET}),
        a_secret(immutable=SECRET),
        a_secret() | {"metadata": {"name": "web", "generation": SECRET}},
        a_secret() | {"metadata": SECRET},
        SECRET.encode(),
        json.dumps(a_secret(data={SECRET: "x"})).encode().replace(b"hunter2", b"\xff"),
        json.dumps(a_secret(data={"password": "deep"}))
        .encode()
        .replace(b'"deep"', b"[" * BEYOND_ANY_STACK + b"]" * BEYOND_ANY_STACK),
    ],
)
def test_a_secret_of_an_unexpected_shape_leaves_bare(thing: Any) -> None:
    assert leaves(SECRETS, thing) == {"kind": "Secret", "apiVersion": "v1", "metadata": METADATA}


_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.just(SECRET)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=5,
)


@given(
    data=_values, string_data=_values, annotations=_values, labels=_values, extra=st.dictionaries(st.text(), _values)
)
def test_no_shape_of_a_secret_lets_a_value_out(
    data: Any, string_data: Any, annotations: Any, labels: Any, extra: dict[str, Any]
) -> None:
    secret = {**extra, **a_secret(data=data, stringData=string_data)}
    secret["metadata"] = {**extra, "name": "web", "annotations": annotations, "labels": labels}

    left = leaves(SECRETS, secret)

    metadata = left["metadata"]
    redacted = [left.get("data"), left.get("stringData"), metadata.get("annotations"), metadata.get("labels")]
    values = [value for part in redacted if part for value in part.values()]
    assert all(DIGEST.fullmatch(value) or DIGEST.fullmatch(base64.b64decode(value).decode()) for value in values)
    assert SECRET not in [value for part in (left, metadata) for value in part.values()]


_managed = st.lists(st.dictionaries(st.text(), _values), min_size=1, max_size=2)
_annotations = st.dictionaries(
    st.sampled_from(["a", LAST_APPLIED, 'say "managedFields":[1]', "}{"]), st.text(max_size=20)
)


@given(
    before=st.booleans(),
    managed=_managed,
    annotations=_annotations,
    extra=st.dictionaries(st.text(), _values),
    ascii_only=st.booleans(),
)
def test_stripping_equals_decoding_and_leaving_out(
    before: bool, managed: Any, annotations: dict[str, str], extra: dict[str, Any], ascii_only: bool
) -> None:
    """As kube-apiserver writes an object: compact, the metadata in front."""
    metadata = {**extra, "name": "web", "annotations": annotations, "managedFields": managed}
    if before:
        metadata = dict(reversed(metadata.items()))
    thing = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"managedFields": managed, "x": extra}}
    body = json.dumps(thing, separators=(",", ":"), ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    kept = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    expected = {key: value for key, value in metadata.items() if key != "managedFields"} | {"annotations": kept}
    if not kept and LAST_APPLIED in annotations:
        del expected["annotations"]
    assert json.loads(stripped(body, None)) == {**thing, "metadata": expected}


@pytest.mark.parametrize("head", ["", '"data":{"managedFields":[{}]},', '"data":"' + "x" * 300 + '",'])
@pytest.mark.parametrize("space", ["", " "])
def test_metadata_that_come_late_or_spaced_are_stripped(head: str, space: str) -> None:
    body = "{" + head + '"metadata":{"managedFields":' + space + '[{}],"name":"web"},"spec":{}}'

    left = json.loads(stripped(body.encode(), None))
    assert left == json.loads(body) | {"metadata": {"name": "web"}}
