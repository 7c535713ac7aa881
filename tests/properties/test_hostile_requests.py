"""Whatever a client sends: no server answers 5xx, reports a bug, or writes a line of the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from bridge.app.endpoints import WebServer
from bridge.app.page import viewers as stream
from bridge.app.page.server import OFFERED, PageServer
from bridge.http import listener as connections
from bridge.http.access import TokenFile
from bridge.plan.plan import PagePlan
from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.process import AnswerFailed
from bridge.telemetry.metrics import Metrics
from tests.bridge.app.page.page import TOKEN, ABridge
from tests.kit.deadlines import BUSY
from tests.kit.examples import examples
from tests.kit.fake_admin import FakeAdmin, a_dead_letter

NAMES = (
    "Accept", "Accept-Encoding", "Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type",
    "Cookie", "Expect", "Forwarded", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "Keep-Alive",
    "Origin", "Range", "Sec-Fetch-Site", "Sec-WebSocket-Key", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Via",
)  # fmt: skip
VALUES = (
    b"", b"\xff", b"[", b"http://[", b"http://[::1", b"//", b"\xc3\x28", b"a" * 3000, b"0", b"-1", b"9" * 20,
    b"*", b"W/", b'W/"', b'"a", "b', b"chunked", b"chunked, chunked", b"gzip", b"deflate", b"br", b"zstd", b"close",
    b"keep-alive", b"upgrade", b"websocket", b"h2c", b"100-continue", b"200", b"bytes=0-", b"bytes=9-1,5-",
    b"localhost", b"localhost:x", b"localhost:99999999", b"[::1]:1", b"@", b"a@localhost", b"\xe2\x80\xa8", b"xn--",
    b"Bearer", b"Bearer \xff", b"Bearer " + TOKEN.encode(), b"Basic :", b"same-origin", b"text/plain; charset=nonsense",
    b"application/json; charset=idna", b"multipart/form-data", b"multipart/form-data; boundary=\xff", b"text/html;q=x",
    b"application/openmetrics-text; version=1.0.0; escaping=nonsense", b"application/openmetrics-text; version=x",
    b"application/openmetrics-text; version", b"text/plain; escaping", b"Thu, 99 Nov 9999 99:99:99 GMT", b"a=b; c",
)  # fmt: skip
PATHS = sorted(
    {"/", "/page.js", "/metrics", "/healthz", "/readyz", "/readyz?verbose", "/v1/follow", "/v1/state"}
    | {each.partition(" ")[2].replace("{number}", "1") for each in OFFERED}
)
FRAMING = ("Content-Length", "Transfer-Encoding", "Connection", "Upgrade")
"""A parser refuses most values of these: they would hide the others."""

path = st.one_of(
    st.sampled_from(PATHS),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20).map("/".__add__),
    st.sampled_from(
        ["*", "http://[", "http://[::1", "//", "/%", "/%ff", "/v1/dead-letters?limit=x", "?", "/?%", "/\xff"]
    ),
).map(str.encode)
query = st.one_of(
    st.just(b""), st.text(st.characters(min_codepoint=33, max_codepoint=126)).map(lambda q: f"?{q}".encode())
)
visible = st.binary(max_size=40).map(lambda text: bytes(each for each in text if each > 31 and each != 127))
value = st.one_of(st.sampled_from(VALUES), visible)
header = st.tuples(st.sampled_from([name.encode() for name in NAMES if name not in FRAMING]), value).map(b": ".join)
method = st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS"])
body = st.one_of(st.just(b""), st.binary(max_size=60), st.sampled_from([b"{}", b"[" * 3000, b"5\r\nabc", b"zz\r\n"]))


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Most pass the parser, have a Host that is judged no further, and the token."""
    headers = draw(st.lists(header, max_size=4))
    if draw(st.integers(0, 9)):
        headers.append(b"Host: localhost")
    if draw(st.integers(0, 3)):
        headers.append(b"Authorization: Bearer " + TOKEN.encode())
    line, content = b" ".join([draw(method), draw(path) + draw(query), b"HTTP/1.1"]), draw(body)
    match draw(st.integers(0, 9)):
        case 0:
            line = draw(st.binary(max_size=40))
        case 1:
            headers.append(draw(st.binary(max_size=40)))
        case 2:
            headers.append(draw(st.tuples(st.sampled_from([each.encode() for each in FRAMING]), value).map(b": ".join)))
        case _:
            headers.append(b"Content-Length: %d" % len(content))
    return b"\r\n".join([line, *headers, b"", content])


class Metered(ABridge):
    def alive(self) -> bool:
        return True


async def answer_to(port: int, sent: bytes) -> bytes:
    """What it gets until the connection ends: by the server's deadline, if it is half a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def attack(token: Path, sent: Sequence[bytes]) -> tuple[list[bytes], list[Fact], list[dict[str, Any]]]:
    """The answers of all servers, their facts, and what the event loop complained about."""
    facts: list[Fact] = []
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    bridge, admin = Metered(), FakeAdmin()
    admin.stored, admin.bodies = [a_dead_letter(1)], {1: b"{}"}
    metrics = Metrics(version="1", failures={})
    page = PageServer(PagePlan("127.0.0.1", 0, token), admin, bridge.sources, facts.append, most_viewers=100)
    web = WebServer(
        "127.0.0.1",
        0,
        status=bridge.status,
        alive=bridge.alive,
        metrics=metrics.render,
        token=TokenFile(token),
        report=facts.append,
    )
    async with asyncio.timeout(60 * BUSY), AsyncExitStack() as stack:
        found: list[bytes] = []
        for server in (page, web):
            await stack.enter_async_context(server)
            found += await asyncio.gather(*(answer_to(server.port, each) for each in sent))
    return found, facts, complaints


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.1)
    monkeypatch.setattr(stream, "LONGEST", 0.1)


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN)
    return path


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(requests(), min_size=5, max_size=20))
def test_no_request_leaves_a_traceback(
    token: Path, impatient: None, caplog: pytest.LogCaptureFixture, sent: Sequence[bytes]
) -> None:
    caplog.clear()
    caplog.set_level(logging.WARNING)
    found, facts, complaints = asyncio.run(attack(token, sent))

    statuses = [int(answer.split(b" ", 2)[1]) for answer in found if answer.startswith(b"HTTP/")]
    assert [each for each in statuses if each >= 500] == []
    assert [fact for fact in facts if isinstance(fact, AnswerFailed)] == []
    assert complaints == []
    assert [record.getMessage() for record in caplog.records] == []
