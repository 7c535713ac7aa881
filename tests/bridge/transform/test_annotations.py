"""Copies of objects and tokens in annotations: cut out where an object is read, else by the transform."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bridge.kube.wire.frames import Frames
from bridge.kube.wire.pages import PageReader
from bridge.model.answers import Announced, Page
from bridge.model.object import LAST_APPLIED, ApiObject, holds_token, is_copy, is_digest_in, may_matter
from bridge.transform.transform import transform_for
from tests.bridge.transform.leaving import REDACTION, WIDGETS

TRANSFORM = transform_for(WIDGETS, REDACTION)
IDENTITY = ['"name":"a"', '"uid":"u"', '"resourceVersion":"7"']


def watched(body: bytes, *, managed_fields: bool) -> ApiObject:
    [answer] = Frames(WIDGETS, managed_fields=managed_fields).feed(b'{"type":"ADDED","object":%b}\n' % body)
    assert isinstance(answer, Announced), answer
    [(_, thing)] = answer.events
    return thing


def listed(body: bytes, *, managed_fields: bool) -> ApiObject:
    reader = PageReader(WIDGETS, managed_fields=managed_fields)
    reader.feed(b'{"kind":"WidgetList","metadata":{"resourceVersion":"9"},"items":[%b]}' % body)
    page = reader.end()
    assert isinstance(page, Page), page
    [thing] = page.objects
    return thing


COPY = f'"annotations":{{"{LAST_APPLIED}":"a"}}'
READERS = pytest.mark.parametrize("read", [watched, listed])


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def widget(metadata: str) -> str:
    return f'{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{{metadata}}},"spec":{{"a":[{{"b":"c"}}]}}}}'


# ── How a name or a text may be written ──────────────────────────────────────

TOKENS = ["example.com/token", "example.com/Auth-Token", "API_TOKEN", "x/authToken", "a.token", "x/token-secret.value"]
COPIES = [
    LAST_APPLIED,
    "banzaicloud.com/last-applied",
    "last-applied",
    "kapp.k14s.io/original",
    "x/last-handled-configuration",
    "app.oam.dev/last-applied-configuration",
    "kopf.zalando.org/last-handled-configuration",
    "objectset.rio.cattle.io/applied",
]
OTHERS = ["team", "example.com/token-ttl", "x/last-restart", "x/Tokenizer", "a\\b", 'say "annotations":{', "ü"]
OTHERS += ["kapp.k14s.io/identity"]


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """The JSON of a text, some of its letters as escapes."""
    hidden = draw(st.sets(st.integers(0, max(0, len(text) - 1)), max_size=2)) if draw(st.integers(0, 3)) == 0 else set()
    return '"' + "".join(f"\\u{ord(c):04x}" if at in hidden else compact(c)[1:-1] for at, c in enumerate(text)) + '"'


@st.composite
def maps(draw: st.DrawFn, members: st.SearchStrategy[tuple[str, str]], most: int = 4) -> str:
    """The members of a map, some of them twice, maybe with spaces."""
    colon, comma = draw(st.sampled_from([(":", ",")] * 5 + [(" : ", " , ")]))
    found = draw(st.lists(members, max_size=most))
    return comma.join([draw(spelled(name)) + colon + value for name, value in found])


VALUES = st.sampled_from(['{"spec":{"password":"x"}}', "", "a", "ü", "\\", '"', "},{", "[]"]).map(compact)
ANNOTATIONS = maps(st.tuples(st.sampled_from([*COPIES, *TOKENS, *OTHERS, LAST_APPLIED, LAST_APPLIED]), VALUES))
MANAGED = st.just('[{"manager":"kubectl","fieldsV1":{"f:metadata":{"f:annotations":{}}}}]')
INNER = ANNOTATIONS.map(lambda found: f'{{"annotations":{{{found}}}}}')
METADATA = maps(
    st.one_of(
        st.tuples(st.just("annotations"), ANNOTATIONS.map("{{{}}}".format)),
        st.tuples(st.just("managedFields"), MANAGED),
        st.tuples(st.sampled_from(["labels", "x"]), st.sampled_from(['{"a":"b"}', "[]"]) | INNER),
    )
)


def expected(body: str) -> Any:
    """What a decoder reads, without managed fields and copies, and with a mark in place of each token."""
    thing = json.loads(body)
    thing["metadata"].pop("managedFields", None)
    if before := thing["metadata"].get("annotations"):
        left = {name: value for name, value in before.items() if not is_copy(name)}
        thing["metadata"]["annotations"] = {
            name: "TOKEN" if value and holds_token(name) else value for name, value in left.items()
        }
        if not left:
            del thing["metadata"]["annotations"]
    return thing


def marked(body: bytes) -> Any:
    thing = json.loads(body)
    if annotations := thing["metadata"].get("annotations"):
        thing["metadata"]["annotations"] = {
            name: "TOKEN" if is_digest_in(value) else value for name, value in annotations.items()
        }
    return thing


@READERS
@given(members=METADATA, order=st.permutations(range(4)), managed_fields=st.booleans())
@example(members=COPY, order=[0, 1, 2, 3], managed_fields=False)
@example(members=f'{COPY},"managedFields":[]', order=[3, 0, 1, 2], managed_fields=False)
@example(members=f'"x":{{{COPY}}},{COPY}', order=[0, 1, 2, 3], managed_fields=False)
@example(members=f'"annotations":{{"team":"b"}},{COPY}', order=[0, 1, 2, 3], managed_fields=False)
@example(members=f"{COPY},{COPY}", order=[0, 1, 2, 3], managed_fields=False)
def test_cutting_equals_decoding_and_leaving_out(
    read: Any, members: str, order: list[int], managed_fields: bool
) -> None:
    assume(
        members.count("managedFields") < 2
    )  # Of two, which no API server writes, the second stays; neither is secret.
    parts = [*IDENTITY, members]
    body = widget(",".join(part for part in (parts[at] for at in order) if part))

    thing = read(body.encode(), managed_fields=managed_fields)

    assert marked(TRANSFORM(thing).body) == expected(body)


@READERS
@pytest.mark.parametrize("others", [{}, {"a": "b"}, {"x/last-restart": "now", "team": "a"}])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("managed", ["", ',"managedFields":[{"manager":"kubectl"}]'])
def test_an_applied_object_is_cut_and_every_other_byte_stays(
    read: Any, others: dict[str, str], first: bool, managed: str
) -> None:
    copy = {LAST_APPLIED: compact({"spec": {"a": "\n"}})}
    annotations = '"annotations":' + compact({**copy, **others} if first else {**others, **copy})
    left = '"annotations":' + compact(others)

    for before in (0, 1, 3):
        members = [*IDENTITY[:before], annotations, *IDENTITY[before:]]
        thing = read(widget(",".join(members) + managed).encode(), managed_fields=False)

        kept = [*IDENTITY[:before], *([left] if others else []), *IDENTITY[before:]]
        assert thing.body.decode() == widget(",".join(kept))
        assert thing.stripped
        assert TRANSFORM(thing) is thing


@given(name=st.sampled_from([*TOKENS, *COPIES, "x/to\u212aen"]).flatmap(spelled), value=VALUES)
def test_every_name_that_counts_is_looked_at(name: str, value: str) -> None:
    assert may_matter(f"{{{name}:{value}}}".encode())


@given(name=st.text("tokenTOKEN-_./aply", max_size=12) | st.text(max_size=3).map("x/token".__add__))
def test_a_name_that_counts_is_looked_at_in_any_letters(name: str) -> None:
    if is_copy(name) or holds_token(name):
        assert may_matter(compact({name: "x"}).encode())


@pytest.mark.parametrize("name", [*TOKENS, *COPIES, *OTHERS])
def test_names_of_tokens_and_of_copies_are_known(name: str) -> None:
    assert (holds_token(name), is_copy(name)) == (name in TOKENS, name in COPIES)
