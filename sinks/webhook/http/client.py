"""The HTTP client of a webhook: a transport to a URL, and its errors in words for the operator."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property

import aiohttp
import httpx

from bridge.model.primitives.connection_errors import why_unconnected, why_unverified
from bridge.model.primitives.wrong_protocol import wants_http
from sinks.excerpt import READ

_MAX_RESPONSE = 64 * 1024
"""Bytes of a response that are read so that its connection can be used again. Of an error response the beginning is
kept for the dead letter and never logged: an endpoint may repeat the request in it."""
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_MAX_WRITE = 1024 * 1024
"""Bytes of a body per write. aiohttp warns of larger writes, because the loop does no other work meanwhile."""
_INVALID_URL = (httpx.InvalidURL, UnicodeError)
"""The client refuses a host name that the rules of ``url`` permit."""
HTTP_ERRORS = (httpx.HTTPError, aiohttp.ClientError, OSError, *_INVALID_URL)
"""Errors of a request. The transport does not translate all errors of aiohttp into those of httpx."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """All but ``status`` only of a response that is not 2xx, or that was asked to be kept."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in any case. Of equal headers, the values are joined with commas."""
    body: bytes = b""
    """The beginning of the body."""
    complete: bool = True
    """``body`` is the whole body."""

    @property
    def retry_after(self) -> str | None:
        return self.headers.get("retry-after")

    @property
    def encoding(self) -> str:
        return self.headers.get("content-encoding", "")

    @property
    def charset(self) -> str:
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return found[1] if found else ""


class HttpClient:
    """Closes its transport when it was retired and its last request has ended: the client can be replaced while
    requests run.

    Hot. This class calls a transport of httpx directly: for every request httpx' own client would parse the URL twice,
    merge headers, and search request and response for cookies, which costs more than all other work together. The sink
    needs none of its features: no redirect is followed, no cookie kept, no proxy or netrc used, and the caller sets the
    deadline of a request.
    """

    def __init__(self, transport: httpx.AsyncBaseTransport, url: str) -> None:
        self._transport = transport
        self._url = url
        self._requests = 0
        self._retired = False

    async def request(
        self, method: str, headers: dict[str, str], body: bytes, *, keep: int = 0, target: str = ""
    ) -> HttpResponse:
        """Returns at most ``sinks.excerpt.READ`` bytes of the body of an error, and ``keep`` bytes of any other body.
        ``target``: path and query in place of those of the URL. Raises the errors of ``HTTP_ERRORS``."""
        self._requests += 1
        try:
            response = await self._transport.handle_async_request(self._build(method, headers, body, target))
            kept, most = b"", keep if response.is_success else READ
            async with aclosing(response):
                async for piece in response.aiter_raw():
                    if len(kept) < most:
                        kept += piece[: most - len(kept)]
                    if response.num_bytes_downloaded > _MAX_RESPONSE:
                        break
            if response.is_success and not keep:
                return HttpResponse(response.status_code)
            complete = response.num_bytes_downloaded <= len(kept)
            return HttpResponse(response.status_code, response.headers, kept, complete)
        finally:
            self._requests -= 1
            await self._close_when_unused()

    async def retire(self) -> None:
        """No request begins any more."""
        self._retired = True
        await self._close_when_unused()

    def _build(self, method: str, headers: dict[str, str], body: bytes, target: str) -> httpx.Request:
        url = self._parsed_url
        if target:
            url = url.copy_with(raw_path=target.encode("ascii"))
        if len(body) > _MAX_WRITE:
            headers = headers | {"content-length": str(len(body))}
            return httpx.Request(method, url, headers=headers, content=_in_pieces(body))
        # With content=body httpx would make all headers a second time. aiohttp adds the headers that are missing here.
        request = httpx.Request(method, url, headers=headers, stream=httpx.ByteStream(body))
        request.read()
        return request

    @cached_property
    def _parsed_url(self) -> httpx.URL:
        url = httpx.URL(self._url)
        _ = url.host  # Raises for a name that cannot be encoded, which aiohttp would report as an unknown host.
        return url

    async def _close_when_unused(self) -> None:
        if self._retired and not self._requests:
            await self._transport.aclose()


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _MAX_WRITE):
        yield body[start : start + _MAX_WRITE]


# The transport reports most errors of aiohttp as a ConnectTimeout, with the real error as its cause. Their texts are
# not shown to the operator: some of them contain the whole URL, which may hold a secret.


def is_unreachable(error: Exception) -> bool:
    """No connection could be made."""
    return isinstance(error.__cause__ or error, aiohttp.ClientConnectorError)


def describe(error: Exception) -> str:
    """An error of ``HTTP_ERRORS`` in words for the operator, to follow the name of the endpoint."""
    if isinstance(error, _INVALID_URL):
        return "is no address that can be asked; see url"
    match error.__cause__ or error:
        case aiohttp.ClientConnectorError(os_error=reason) if wants_http(reason):
            return "speaks plain HTTP on this port: write http:// in url"
        case aiohttp.ClientConnectorCertificateError(certificate_error=reason):
            return f"cannot be reached: its certificate is not accepted: {why_unverified(reason, 'ca_file')}"
        case aiohttp.ClientConnectorError(os_error=reason):
            return f"cannot be reached: {why_unconnected(reason)}"
        case aiohttp.ClientOSError(strerror=str(reason)):
            return f"did not answer: {reason}"
        case cause:
            return f"did not answer: {type(cause).__name__}"
