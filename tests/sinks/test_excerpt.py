"""What is kept of a stranger's answer."""

from __future__ import annotations

import gzip
import html
import json
import zlib
from base64 import b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.excerpt import KEPT, READ, REDACTED, Secrets, excerpt
from tests.kit.growth import grows_linearly

NONE = Secrets(())
TOKEN = "Bearer s3cr3t/tok+en=="
QUOTINGS: list[Callable[[str], str]] = [
    str,
    json.dumps,
    lambda text: json.dumps(text).replace("/", "\\/"),
    lambda text: json.dumps(json.dumps(text)),
    lambda text: json.dumps(text).replace("+", "\\u002B").replace("=", "\\u003d"),
    quote,
    quote_plus,
    lambda text: quote(text, safe="").lower(),
    html.escape,
    lambda text: html.escape(text).replace("/", "&#x2F;").replace("=", "&#61;"),
]


def test_an_answer_is_kept_as_it_is() -> None:
    assert excerpt(b'{"error": "no schema for \xc3\xa4"}\n', NONE) == '{"error": "no schema for ä"}'


@pytest.mark.parametrize("length", [KEPT - 1, KEPT, KEPT + 1, READ, 10 * READ])
@pytest.mark.parametrize("letter", ["x", "ä", "☃"])
def test_no_more_than_a_kilobyte_is_kept_of_it(length: int, letter: str) -> None:
    kept = excerpt((letter * length).encode(), NONE)

    assert KEPT - 3 < len(kept.encode()) <= KEPT or len(kept) == length
    assert set(kept) == {letter}


@pytest.mark.parametrize(
    ("charset", "codec"),
    [("utf-8", "utf-8"), ("ISO-8859-1", "latin-1"), ("utf-16", "utf-16"), ("Shift_JIS", "shift_jis"), ("", "utf-8")],
)
def test_a_charset_is_understood(charset: str, codec: str) -> None:
    text = "日本" if codec == "shift_jis" else "für"
    assert excerpt(text.encode(codec), NONE, charset=charset) == text


@pytest.mark.parametrize(
    "charset", ["none-such", "zlib", "base64", "rot13", "idna", "unicode_escape", "\x00", "x" * 999]
)
def test_what_is_no_charset_does_no_harm(charset: str) -> None:
    assert excerpt(b"\\u202e plain", NONE, charset=charset) == "\\u202e plain"


def test_nothing_that_a_terminal_would_obey_is_kept() -> None:
    kept = excerpt("a\x1b[2J\x9b0m\u202eb\rc\x7f\n\td".encode(), NONE)
    assert kept == "a�[2J�0m�b�c�\n\td"


def test_a_compressed_answer_is_read_and_a_bomb_is_not() -> None:
    bomb = gzip.compress(b"x" * 50_000_000)
    assert excerpt(gzip.compress(b"too large"), NONE, encoding="gzip") == "too large"
    assert excerpt(zlib.compress(b"too large"), NONE, encoding="deflate") == "too large"
    assert excerpt(bomb, NONE, encoding="gzip", complete=False) == "x" * KEPT
    assert excerpt(b"no gzip", NONE, encoding="gzip") == excerpt(b"?", NONE, encoding="br") == ""


@pytest.mark.parametrize("quoting", range(len(QUOTINGS)))
def test_an_echo_brings_no_secret_back_however_it_is_quoted(quoting: int) -> None:
    basic = f"Basic {b64encode(b'me:pass word!').decode()}"
    secrets = Secrets([TOKEN, basic])
    said = QUOTINGS[quoting](f"{TOKEN} | s3cr3t/tok+en== | {basic} | me:pass word! | pass word! | end")
    kept = excerpt(said.encode(), secrets)

    assert "s3cr3t" not in kept
    assert "tok" not in kept
    assert "pass" not in kept
    assert basic.removeprefix("Basic ")[:6] not in kept
    assert kept.count(REDACTED) >= 5
    assert "end" in kept


@given(st.text(st.sampled_from("abcXYZ019+/=&<>'\"\\ .-_~%"), min_size=8, max_size=40), st.data())
def test_no_part_of_a_secret_longer_than_a_scheme_is_kept(secret: str, data: st.DataObject) -> None:
    secret = secret.strip()
    if len(secret) < 8:
        return
    before = data.draw(st.integers(0, 3 * KEPT))
    quoting = data.draw(st.sampled_from(QUOTINGS))
    answer = ("?" * before + quoting(secret) + "?" * KEPT).encode()
    read = data.draw(st.integers(1, len(answer)))
    kept = excerpt(answer[:read], Secrets([secret]), complete=read == len(answer))

    assert quoting(secret)[:7].lower() not in kept.lower()


def test_a_secret_that_is_cut_in_two_is_not_kept() -> None:
    secrets = Secrets(["s3cr3t-token-of-some-length"])
    for cut in range(1, 60):
        kept = excerpt(
            ("ok: s3cr3t-token-of-some-length, s3cr3t-token-of-some-length")[:cut].encode(), secrets, complete=False
        )
        assert "s3cr" not in kept


PUMPS = [
    "\\",
    "\\\\x",
    "\\u005c",
    "%",
    "%5c",
    "%255c",
    "&#0",
    "&#92;",
    "&#x5c;",
    "&amp;",
    " ",
    "+",
    "/a",
    "aaaa",
    "\\u00",
]


@pytest.mark.parametrize("pump", PUMPS)
@pytest.mark.parametrize("secret", ["\\" * 40, "\\x" * 20, "%" * 40, "   a" * 10, "a" * 40, "&#&#" * 10, "/a/a/a/a b"])
def test_the_time_is_linear_in_a_hostile_answer(secret: str, pump: str) -> None:
    secrets = Secrets([f"{secret}!", f"{secret}?"])

    def redacting(size: int) -> Callable[[], object]:
        answer = (pump * size)[:size].encode() + b"!"
        return lambda: secrets.redact(answer)

    assert grows_linearly(redacting, 2_000, 20_000)


def test_a_secret_of_backslashes_is_found_in_more_of_them() -> None:
    assert excerpt(b'{"echo": "' + b"\\" * 80 + b'n!", "ok": 1}', Secrets(["\\" * 40 + "n!"])) == (
        '{"echo": "[redacted]", "ok": 1}'
    )


@pytest.mark.parametrize("text", ["a+b+", "+a b", "%25%", "100%41", "&amp;b", "&#65;x", "\\u0041", "äÖ%c3", "+ + + +"])
def test_a_secret_that_looks_quoted_is_found_as_it_is(text: str) -> None:
    for quoting in QUOTINGS:
        kept = excerpt(f"<{quoting(text)}>".encode(), Secrets([text]))

        assert REDACTED in kept
        assert set(kept.replace(REDACTED, "")) <= set('<>"\\')


def test_an_answer_with_a_false_charset_brings_nothing_back() -> None:
    kept = excerpt(f"echo: {TOKEN}, so".encode(), Secrets([TOKEN]), charset="utf-16-le")
    assert TOKEN.encode() not in kept.encode("utf-16-le")
    assert b"s3cr3t" not in kept.encode("utf-16-le")
