"""Values of objects in a URL and in headers: whatever they are, they stay where the operator put them."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pytest
import yarl
from hypothesis import example, given
from hypothesis import strategies as st

from sinks.webhook.options import HeaderTemplate, UrlTemplate

URL = "https://search.test/k8s/{a}/_doc/x-{b}?routing={c}&z=1"
HOSTILE = [
    "..",
    ".",
    "a/../..",
    "a?b#c",
    "x&z=2",
    "é\u2028",
    "%2e%2e",
    "a b",
    "",
    "@evil.test",
    ":80",
    "a\r\nX: y",
    "\\",
]
values = st.text(max_size=8) | st.sampled_from(HOSTILE)


@pytest.mark.parametrize(
    ("url", "base", "target"),
    [
        ("http://h/a/b-{a}", "http://h/a/", "/a/b-V"),
        ("http://h/{a}/x", "http://h/", "/V/x"),
        ("http://h?x={a}", "http://h/", "/?x=V"),
        ("http://h:1/a?x=/b/{a}", "http://h:1/", "/a?x=/b/V"),
    ],
)
def test_the_path_before_the_first_expression_is_the_base(url: str, base: str, target: str) -> None:
    template = UrlTemplate(url)

    assert (template.base, template.render({"a": "V"})) == (base, target)


@given(values, values, values)
@example("..", "y", "z")
@example("%2e%2e", "%2E", "")
def test_a_value_changes_neither_the_path_nor_the_query(a: str, b: str, c: str) -> None:
    try:
        target = UrlTemplate(URL).render({"a": a, "b": b, "c": c})
    except ValueError:
        refused = (
            not a or not b or a in (".", "..") or any(each in "/\\" or ord(each) in (*range(32), 127) for each in a + b)
        )
        assert refused
        return
    # As the client's libraries send it, and as a server reads it.
    for read in (
        target,
        str(yarl.URL(str(httpx.URL("https://search.test").copy_with(raw_path=target.encode())))).removeprefix(
            "https://search.test"
        ),
    ):
        parts = urlsplit(read)
        segments = [unquote(each) for each in parts.path.split("/")]
        assert segments == ["", "k8s", a, "_doc", f"x-{b}"]
        assert parse_qsl(parts.query, keep_blank_values=True) == [("routing", c), ("z", "1")]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "is empty"),
        ("a/b", "has a slash, a backslash or a control character"),
        ("..", "a segment of the path would be . or .."),
        ("x" * 9000, "would have 9003 bytes; 8000 are the most"),
    ],
)
def test_the_reason_of_a_refusal_has_no_value(value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"^url: ") as raised:
        UrlTemplate("http://h/{object.x}/y").render({"object.x": value})

    assert reason in str(raised.value)
    assert not value or value == ".." or value not in str(raised.value)


@given(values, values)
def test_a_value_stays_in_its_header(a: str, b: str) -> None:
    value = HeaderTemplate("X-Team", "team {a}/{b}").render({"a": a, "b": b})

    assert value.isascii()
    assert value.isprintable()
    assert unquote(value) == f"team {a}/{b}".rstrip(" ")


def test_an_empty_header_is_left_out_and_a_long_one_refused() -> None:
    template = HeaderTemplate("X-Team", "{a}")

    assert template.render({"a": " "}) == ""
    with pytest.raises(ValueError, match=r"headers\.x-team would have 5000 bytes; 4096 are the most"):
        template.render({"a": "x" * 5000})
