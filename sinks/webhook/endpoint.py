"""One endpoint, asked over HTTP."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from bridge.model.primitives.wrong_protocol import BEGINNING, wants_http, wants_https
from sinks.base import RetryLater, SecretFile, SinkUnavailable, WrongOption
from sinks.excerpt import READ, Secrets, excerpt
from sinks.tls import tls_context
from sinks.webhook.answers import Failed, Refused, Verdict, verdict
from sinks.webhook.encode import Message
from sinks.webhook.examine import header_value
from sinks.webhook.options import WebhookOptions
from sinks.webhook.signature import keys_in, signature

_ANSWER_LIMIT = 64 * 1024
"""Bytes of an answer that are read so that its connection can be used again. Of a refusal the beginning is kept with
the dead letter; an endpoint may repeat what it was sent, and that belongs into no log."""
_LONG = 8
"""Characters of a header that is not secret, or of a path. What is shorter stands in an answer for other reasons."""
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_ONE_PIECE = 1024 * 1024
"""Bytes of a body that are written at once. aiohttp warns of more, because the loop would do nothing else meanwhile."""
_WANTS_HTTPS = "answers 400: it speaks HTTPS on this port: write https:// in url"
_NO_ADDRESS = (httpx.InvalidURL, UnicodeError)
"""A name that no rule of ours forbids, and that the client does not take nevertheless."""
_TROUBLES = (httpx.HTTPError, aiohttp.ClientError, OSError, *_NO_ADDRESS)
"""What the transport does not translate comes as it is."""


class Endpoint:
    """``open`` before ``post``. What the operator named by file is read anew when it changes, certificates when a
    connection could not be made."""

    def __init__(self, options: WebhookOptions) -> None:
        self._options = options
        parts = urlsplit(options.url)
        self._name = f"{parts.scheme}://{parts.netloc}"
        """For messages: a path or a query may be a secret."""
        self._secret_headers = {
            name: SecretFile(path, f"header_files.{name}") for name, path in options.header_files.items()
        }
        self._secret = SecretFile(options.secret_file, "secret_file") if options.secret_file else None
        self._client: _Client | None = None
        self._opening = asyncio.Lock()
        self._stale = False
        """A connection could not be made: certificates may have been renewed."""
        self._headers: dict[str, str] = {}
        self._keys: tuple[bytes, ...] = ()

    async def open(self) -> None:
        """Have everything that a request needs; sends none. Raises SinkUnavailable."""
        self._read_secrets()
        if self._client is not None and not self._stale:
            return
        async with self._opening:
            if self._client is None or self._stale:
                fresh = await self._new_client()
                former, self._client = self._client, fresh
                self._stale = False
                if former is not None:
                    await former.retire()

    async def post(self, message: Message) -> Verdict:
        """May be called while other requests are under way."""
        client = self._client
        if client is None:
            raise RuntimeError("post() before open()")
        headers = self._headers | message.headers
        if self._keys:
            now = int(time.time())
            headers["webhook-id"] = message.id
            headers["webhook-timestamp"] = str(now)
            headers["webhook-signature"] = signature(self._keys, message.id, now, message.body)
        try:
            async with asyncio.timeout(self._options.timeout):
                answer = await client.request("POST", headers, message.body)
        except TimeoutError:
            return Failed(RetryLater(f"{self._name} did not answer within {self._options.timeout:g} s"))
        except _TROUBLES as error:
            unreachable = _is_unreachable(error)
            self._stale = self._stale or (unreachable and client is self._client)
            return Failed(RetryLater(f"{self._name} {_what_happened(error)}", whole=unreachable))
        if wants_https(answer.status, answer.body[:BEGINNING]):
            return Failed(RetryLater(f"{self._name} {_WANTS_HTTPS}", whole=True))
        found = verdict(answer.status, answer.retry_after, datetime.now(UTC))
        if isinstance(found, Refused):
            return replace(found, answer=self._excerpt(answer, headers))
        return self._named_verdict(found)

    async def ask(self) -> str:
        """Say what answers there, by an OPTIONS request. Raises SinkUnavailable."""
        await self.open()
        if self._client is None:
            raise RuntimeError("open() made no client")
        try:
            async with asyncio.timeout(self._options.timeout):
                answer = await self._client.request("OPTIONS", self._headers, b"")
        except TimeoutError:
            raise SinkUnavailable(f"{self._name} did not answer within {self._options.timeout:g} s") from None
        except _TROUBLES as error:
            raise SinkUnavailable(f"{self._name} {_what_happened(error)}") from error
        if wants_https(answer.status, answer.body[:BEGINNING]):
            raise WrongOption("url", f"{self._name} {_WANTS_HTTPS}")
        return f"{self._name} answers ({answer.status} to OPTIONS)"

    async def close(self) -> None:
        client, self._client = self._client, None
        self._stale = False
        if client is not None:
            await client.retire()

    def _read_secrets(self) -> None:
        files = self._options.header_files
        secrets = {name: header_value(file.read(), name, files[name]) for name, file in self._secret_headers.items()}
        chosen = {name.lower(): value for name, value in (self._options.headers | secrets).items()}
        self._headers = {"user-agent": "kubedelta"} | chosen
        if self._secret is not None and self._options.secret_file is not None:
            self._keys = keys_in(self._secret.read(), self._options.secret_file)

    async def _new_client(self) -> _Client:
        options = self._options
        tls: ssl.SSLContext | bool = False
        if options.url.startswith("https:"):
            tls = await asyncio.to_thread(tls_context, options.ca_file, options.cert_file, options.key_file)

        def session() -> aiohttp.ClientSession:
            connector = aiohttp.TCPConnector(ssl=tls, limit=options.concurrency)
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        transport = AiohttpTransport(verify=tls, trust_env=False, client=session)
        return _Client(transport, options.url)

    def _excerpt(self, answer: _Answer, headers: dict[str, str]) -> str:
        """An echo of the request brings back none of our headers' values that are secret or long, no key, no
        signature, and nothing of the URL behind the host."""
        own = [self._headers[name.lower()] for name in self._secret_headers]
        own += [value for value in self._options.headers.values() if len(value) >= _LONG]
        own += headers.get("webhook-signature", "").split()
        own += [b64encode(key).decode() for key in self._keys]
        parts = urlsplit(self._options.url)
        own += [value for _, value in parse_qsl(parts.query)]
        own += [target for target in (f"{parts.path}?{parts.query}", parts.path, parts.query) if len(target) >= _LONG]
        return excerpt(answer.body, Secrets(own), whole=answer.whole, charset=answer.charset, encoding=answer.encoding)

    def _named_verdict(self, found: Verdict) -> Verdict:
        if isinstance(found, Failed):
            return Failed(replace(found.trouble, reason=f"{self._name} {found.trouble.reason}"))
        return found


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: str | None = None
    body: bytes = b""
    """Its beginning. This and what follows: of one that is not 2xx."""
    whole: bool = True
    charset: str = ""
    encoding: str = ""


class _Client:
    """Is closed when it has been retired and its last request has ended: one may be replaced under the others.

    Hot. A transport of httpx is asked directly: for every request httpx' own client would parse the URL twice, merge
    headers, and take the request and its answer apart for a cookie jar, at more than the cost of all the rest. It
    would do nothing else that is wanted: no redirect is followed, no cookie kept, no proxy or netrc looked for, and
    the deadline of a request is the caller's.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, url: str) -> None:
        self._transport = transport
        self._url = url
        self._requests = 0
        self._retired = False

    async def request(self, method: str, headers: dict[str, str], body: bytes) -> _Answer:
        self._requests += 1
        try:
            answer = await self._transport.handle_async_request(self._made(method, headers, body))
            kept = b""
            async with aclosing(answer):
                async for piece in answer.aiter_raw():
                    if not answer.is_success and len(kept) < READ:
                        kept += piece[: READ - len(kept)]
                    if answer.num_bytes_downloaded > _ANSWER_LIMIT:
                        break
            return _Answer(answer.status_code) if answer.is_success else _refusal(answer, kept)
        finally:
            self._requests -= 1
            await self._close_when_unused()

    async def retire(self) -> None:
        self._retired = True
        await self._close_when_unused()

    def _made(self, method: str, headers: dict[str, str], body: bytes) -> httpx.Request:
        if len(body) > _ONE_PIECE:
            headers = headers | {"content-length": str(len(body))}
            return httpx.Request(method, self._address, headers=headers, content=_in_pieces(body))
        # As content, it would have httpx make all headers a second time; aiohttp adds those that are left out here.
        request = httpx.Request(method, self._address, headers=headers, stream=httpx.ByteStream(body))
        request.read()
        return request

    @cached_property
    def _address(self) -> httpx.URL:
        address = httpx.URL(self._url)
        _ = address.host  # Raises what aiohttp would only find not to be known.
        return address

    async def _close_when_unused(self) -> None:
        if self._retired and not self._requests:
            await self._transport.aclose()


def _refusal(answer: httpx.Response, kept: bytes) -> _Answer:
    headers = answer.headers
    charset = _CHARSET.search(headers.get("content-type", ""))
    return _Answer(
        answer.status_code,
        headers.get("retry-after"),
        kept,
        answer.num_bytes_downloaded <= len(kept),
        charset[1] if charset else "",
        headers.get("content-encoding", ""),
    )


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _ONE_PIECE):
        yield body[start : start + _ONE_PIECE]


# The transport calls most troubles of aiohttp a ConnectTimeout; what they were is their cause. Their texts are not for
# the operator: some of them hold the whole URL.


def _is_unreachable(error: Exception) -> bool:
    return isinstance(error.__cause__ or error, aiohttp.ClientConnectorError)


def _what_happened(error: Exception) -> str:
    if isinstance(error, _NO_ADDRESS):
        return "is no address that can be asked; see url"
    match error.__cause__ or error:
        case aiohttp.ClientConnectorError(os_error=reason) if wants_http(reason):
            return "speaks plain HTTP on this port: write http:// in url"
        case aiohttp.ClientConnectorCertificateError(certificate_error=reason):
            return f"cannot be reached: {reason}"
        case aiohttp.ClientConnectorError(os_error=reason):
            return f"cannot be reached: {reason.strerror or type(reason).__name__}"
        case cause:
            return f"did not answer: {type(cause).__name__}"
