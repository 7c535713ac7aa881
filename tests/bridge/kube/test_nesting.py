"""JSON looked through without recursion."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.kube.wire.objects import Nesting, decode_head, deeper_than, end_of_value, end_of_whole, find_head, members
from tests.kit.growth import grows_linearly
from tests.kit.objects import BEYOND_ANY_STACK

TEXTS = st.text('{}[],:"\\ aä\n\x00', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda within: st.lists(within, max_size=4) | st.dictionaries(TEXTS, within, max_size=4),
    max_leaves=12,
)


@given(
    value=st.lists(JSON) | st.dictionaries(TEXTS, JSON),
    cuts=st.lists(st.integers(0, 1000), max_size=9),
    behind=st.sampled_from([b"", b"]", b"}}}", b',{"a":1}', b'"']),
)
def test_the_end_of_a_value_is_found_however_it_is_cut(value: Any, cuts: list[int], behind: bytes) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    whole = text + behind
    nesting = Nesting()

    for start, stop in pairwise(sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})):
        end = nesting.end(whole[start:stop])
        if end >= 0:
            assert start + end == len(text)
            return
    raise AssertionError("the end was not found")


def simply_ended(text: bytes) -> int:
    """What ``Nesting.end`` promises, byte by byte."""
    depth, string, escaped = 0, False, False
    for at, byte in enumerate(text):
        if string:
            string, escaped = escaped or byte != ord('"'), not escaped and byte == ord("\\")
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return at + 1
        else:
            string = byte == ord('"')
    return -1


@given(
    text=st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"a", b'{"', b'": null}']), max_size=30),
    cuts=st.lists(st.integers(0, 40), max_size=6),
)
@example(text=[b'{"', b'": null}'], cuts=[3])
def test_any_text_ends_where_its_brackets_do_however_it_is_cut(text: list[bytes], cuts: list[int]) -> None:
    whole = b"[" + b"".join(text)
    nesting, ends = Nesting(), []

    for start, stop in pairwise(sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})):
        end = nesting.end(whole[start:stop])
        if end >= 0:
            ends.append(start + end)
            break

    assert (ends or [-1]) == [simply_ended(whole)]


@given(members_of=st.dictionaries(TEXTS, JSON, max_size=6), indent=st.sampled_from([None, 2]))
def test_members_are_found_where_they_stand(members_of: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(members_of, indent=indent, ensure_ascii=False).encode()

    assert {json.loads(key): json.loads(text[start:end]) for key, start, end in members(text)} == members_of


@given(
    metadata=st.dictionaries(st.sampled_from(["name", "namespace", "uid", "resourceVersion", "labels"]), TEXTS),
    more=st.dictionaries(st.sampled_from(["kind", "apiVersion", "spec", "status"]), TEXTS),
    order=st.booleans(),
)
def test_what_is_found_of_an_object_is_what_its_decoder_reads(
    metadata: dict[str, str], more: dict[str, str], order: bool
) -> None:
    thing = {"metadata": metadata, **more} if order else {**more, "metadata": metadata}
    text = json.dumps(thing).encode()

    found, decoded = find_head(text), decode_head(text)

    assert (found.kind, found.api_version) == (decoded.kind, decoded.api_version)
    assert found.metadata
    assert decoded.metadata
    for name in ("name", "namespace", "uid", "resource_version"):
        assert getattr(found.metadata, name) == getattr(decoded.metadata, name)


@pytest.mark.parametrize(("cut", "name"), [(0, "web"), (1, "web"), (20, "web"), (40, "web"), (49, ""), (60, "")])
def test_an_object_that_is_cut_off_is_read_as_far_as_it_goes(cut: int, name: str) -> None:
    text = b'{"kind":"Pod","metadata":{"name":"web","uid":"u"},"spec":{"a":[1,2,3],"b":"long"}}'
    head = find_head(text[: len(text) - cut])
    assert head.kind == "Pod"
    assert head.metadata is None or head.metadata.name == name


@given(value=st.lists(JSON) | st.dictionaries(TEXTS, JSON), levels=st.integers(0, 8))
def test_what_is_deeper_is_known_whatever_stands_in_strings(value: Any, levels: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    nesting = Nesting()
    nesting.end(text)

    assert deeper_than(text, levels) == (nesting.deepest > levels)


@given(value=st.lists(JSON) | st.dictionaries(TEXTS, JSON), behind=st.text(",]}[{ \n\t1x", max_size=4))
@example(value={"a": "x"}, behind=" \n,")
def test_the_decoder_knows_where_a_whole_value_ends(value: Any, behind: str) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()

    assert end_of_whole(memoryview(text + behind.encode())) == len(text)


@given(value=st.lists(JSON, min_size=1) | st.dictionaries(TEXTS, JSON, min_size=1), cut=st.integers(1, 1000))
def test_a_part_of_a_value_has_no_end(value: Any, cut: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    part = memoryview(text)[: -(1 + cut % (len(text) - 1))]
    try:
        assert end_of_whole(part) == -1
    except msgspec.DecodeError as error:
        # A number may be cut off where none can end.
        assert "invalid" in str(error)  # noqa: PT017


@pytest.mark.parametrize("text", [b'{"a":nonsense},', b"[x],", b'{"a" 1}', b"[" * BEYOND_ANY_STACK])
def test_what_the_decoder_cannot_read_has_no_end_that_it_knows(text: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, RecursionError)):
        end_of_whole(memoryview(text))


def test_it_counts_how_deep_it_went() -> None:
    nesting = Nesting()
    nesting.end(b'[{"a":[]},[[[[]]]]]')
    assert nesting.deepest == 5


@pytest.mark.parametrize("text", [b"", b"x", b"{", b'{"a', b'{"a":', b'{"a":1', b"[]", b'{"a" 1}', b"{1:2}"])
def test_what_is_no_object_has_no_members_that_end(text: bytes) -> None:
    assert all(end < 0 for _, _, end in members(text))


@pytest.mark.parametrize("piece", [b'"', b"\\", b"a", b",", b'"a",', b'"\\\\",', b'{"a":1},', b'["'])
@pytest.mark.parametrize("before", [b"[", b'["'], ids=["outside", "in a string"])
def test_a_hostile_text_takes_no_longer_than_its_length(before: bytes, piece: bytes) -> None:
    def searching(size: int) -> Callable[[], object]:
        text = (before + piece * size)[:size]
        return lambda: (Nesting().end(text), deeper_than(text, 0), all(members(b"{" + text)))

    assert grows_linearly(searching, 40_000, 320_000)


def test_a_million_brackets_are_looked_through_in_no_time() -> None:
    text = b'{"a":[' * 1_000_000
    assert end_of_value(text, 0) == -1
    assert Nesting().end(b"[" * 1_000_000 + b"]" * 1_000_000) == 2_000_000
