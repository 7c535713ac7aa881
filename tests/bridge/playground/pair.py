"""The playground beside a real API server: the same requests to both, and the answers in a form that can be compared.

What cannot be the same is replaced by a word for it: uids, versions, times, addresses.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.servers import KubeApiServer
from tests.kit.deadlines import BUSY
from tests.kit.playground import Playground

TOKEN = "playground-admin"

_WORDS = (
    (r'"uid":"[0-9a-f-]{36}"', '"uid":"<uid>"'),
    (r"UID in record \([0-9a-f-]{36}\)", "UID in record (<uid>)"),
    (r'"resourceVersion":"[1-9][0-9]*"', '"resourceVersion":"<version>"'),
    (r"ResourceVersion in record \([0-9]+\)", "ResourceVersion in record (<version>)"),
    (r"current: [0-9]+", "current: <version>"),
    (r"too old resource version: ([0-9]+) \([0-9]+\)", r"too old resource version: \1 (<version>)"),
    (r'"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z"', '"<time>"'),
    (r'"serverAddress":"[^"]*"', '"serverAddress":"<address>"'),
    (r'"name":"([a-z-]+-)[bcdfghjklmnpqrstvwxz2456789]{5}"', r'"name":"\1<random>"'),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One server's answer, comparable."""

    status: int
    headers: dict[str, str]
    text: str


def comparable(text: str) -> str:
    text = re.sub(r'"continue":"([^"]+)"', lambda found: f'"continue":{_token(found[1])}', text)
    for pattern, word in _WORDS:
        text = re.sub(pattern, word, text)
    return text


def _token(text: str) -> str:
    token = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    token["rv"] = "<version>" if token["rv"] > 0 else token["rv"]
    return json.dumps(token)


def insist(ours: object, real: object, asked: str) -> None:
    """Show where the playground's answer leaves the real one."""
    one, other = repr(ours), repr(real)
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start, end = max(0, at - 200), at + 200
    assert one == other, f"{asked}\nplayground …{one[start:end]}\nreal server …{other[start:end]}"


SINCE = "resourceVersion=SINCE"
"""In a path: from the side's ``since`` on."""


@dataclass(slots=True)
class Side:
    """One of the two servers."""

    http: httpx.AsyncClient
    since: str = ""
    """A version of a moment ago. A server that others share forgets older ones when it has many changes."""
    last: httpx.Response | None = None
    """The last whole answer, for what the next request needs of it."""

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        sent = {"Content-Type": "application/json"} if body is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.last = await self.http.request(method, self._since(path), content=content, headers=sent)
        return Reply(self.last.status_code, _compared_headers(self.last.headers), comparable(self.last.text))

    def _since(self, path: str) -> str:
        return path.replace(SINCE, f"resourceVersion={self.since}")

    def json(self) -> Any:
        """The last answer as it came."""
        assert self.last is not None
        return self.last.json()

    async def until(self, path: str, status: int, timeout: float = 30 * BUSY) -> None:
        """Ask until the answer has that status. Raises TimeoutError after so many seconds."""
        async with asyncio.timeout(timeout):
            while True:
                if (await self.ask("GET", path)).status == status:
                    return
                await asyncio.sleep(0.05)  # Nothing announces it.

    async def watch(self, path: str, lines: int, seconds: float, begun: asyncio.Event | None = None) -> Reply:
        """The first lines of a watch, fewer if it ends before. ``begun`` is set at the first."""
        found: list[str] = []
        async with asyncio.timeout(seconds), self.http.stream("GET", self._since(path)) as answer:
            async for chunk in _split(answer):
                found.append(comparable(chunk))
                if begun:
                    begun.set()
                if len(found) == lines:
                    break
        while len(found) < lines and found and _is_plain_bookmark(found[-1]):
            found.pop()  # kube-apiserver sends one shortly before a watch times out, if its timer comes first.
        return Reply(answer.status_code, _compared_headers(answer.headers, "transfer-encoding"), "\n".join(found))


def _is_plain_bookmark(line: str) -> bool:
    return line.startswith('{"type":"BOOKMARK"') and "annotations" not in line


async def _split(answer: httpx.Response) -> AsyncIterator[str]:
    rest = b""
    async for chunk in answer.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()
    if rest:
        yield rest.decode()


def _compared_headers(headers: httpx.Headers, *more: str) -> dict[str, str]:
    names = ("content-type", "cache-control", "retry-after", "vary", "content-encoding", *more)
    return {name: headers[name] for name in names if name in headers}


@dataclass(slots=True)
class Pair:
    """Asks both, and insists that they answer alike."""

    real: Side
    playground: Side
    server: Playground

    async def same(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        real = await self.real.ask(method, path, body, **headers)
        ours = await self.playground.ask(method, path, body, **headers)
        insist(ours, real, f"{method} {path}")
        return real

    async def alike(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Where the messages are worded differently on purpose: everything but ``message``. Returns the real Status."""
        real = await self.real.ask(method, path, body, **headers)
        ours = await self.playground.ask(method, path, body, **headers)
        insist((ours.status, ours.headers), (real.status, real.headers), f"{method} {path}")
        one, other = json.loads(ours.text), json.loads(real.text)
        insist({**one, "message": ""}, {**other, "message": ""}, f"{method} {path} {body!r}")
        return other

    async def same_watch(self, path: str, *, lines: int = 1000, seconds: float = 20) -> Reply:
        real, ours = await asyncio.gather(
            self.real.watch(path, lines, seconds), self.playground.watch(path, lines, seconds)
        )
        insist(ours, real, path)
        return real

    async def both(self, method: str, path: str, body: Any = None, **headers: str) -> None:
        """Where the answer is not the point."""
        for side in (self.real, self.playground):
            sent_lines = await side.ask(method, path, body, **headers)
            assert sent_lines.status < 300, f"{method} {path}: {sent_lines}"


@asynccontextmanager
async def pair_with(real: KubeApiServer, user: str = "admin") -> AsyncIterator[Pair]:
    """A server and a playground. ``user`` asks the real server, the administrator the playground."""
    async with (
        Playground(tokens={TOKEN: user}) as server,
        httpx.AsyncClient(
            base_url=real.url,
            verify=real.tls,
            headers={"Authorization": f"Bearer {real.token(user)}"},
            timeout=30 * BUSY,
            trust_env=False,
        ) as one,
        httpx.AsyncClient(
            base_url=server.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30 * BUSY,
            trust_env=False,
            verify=False,
        ) as other,
    ):
        yield Pair(Side(one), Side(other), server)
