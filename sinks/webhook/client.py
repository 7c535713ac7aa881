"""Sends HTTP requests to one URL, and only to addresses that the sink may connect to.

``HttpEndpoint`` is the URL with its deadlines, TLS files and failures in words for the operator; it replaces its
``HttpClient`` when certificates change, while requests run. ``HttpClient`` calls a transport directly. A
``NetworkPolicy`` judges the real address of each connection.

Link-local addresses and those where clouds serve credentials of the machine are refused: a URL, or a name that suddenly
resolves there, must not turn the bridge against its own machine. Loopback and private networks are permitted, because
endpoints inside a cluster have such addresses.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import httpx
from aiohttp import AddrInfoType
from httpx_aiohttp import AiohttpTransport

from bridge.model.primitives.network import wants_http, why_unconnected, why_unverified
from sinks.base import always
from sinks.excerpt import READ
from sinks.receipt import NotLeading, RetryLater, SinkUnavailable
from sinks.secret_files import TlsFiles

# ── Permitted addresses ──────────────────────────────────────────────────────

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

_LINK_LOCAL = "a link-local address, where clouds serve credentials of the machine"
_METADATA = "an address where a cloud serves credentials of the machine"
_REFUSED: dict[_Network, str] = {
    ip_network("169.254.0.0/16"): _LINK_LOCAL,
    ip_network("fe80::/10"): _LINK_LOCAL,
    ip_network("fd00:ec2::/32"): _METADATA,  # Amazon
    ip_network("fd20:ce::254"): _METADATA,  # Google
    ip_network("168.63.129.16"): _METADATA,  # Azure
    ip_network("100.100.100.200"): _METADATA,  # Alibaba
    ip_network("192.0.0.192"): _METADATA,  # Oracle
    ip_network("fd00:42::42"): _METADATA,  # Scaleway
}

_MAPPED = IPv6Network("::ffff:0:0/96")
_LAST_32_BITS = (_MAPPED, *map(IPv6Network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))
"""IPv6 networks whose addresses end in an IPv4 address: mapped, compatible, NAT64."""
_6TO4 = IPv6Network("2002::/16")


class AddressRefused(OSError):
    """The sink must not connect to this address."""

    def __init__(self, reason: str) -> None:
        super().__init__(None, reason)

    def __str__(self) -> str:
        return str(self.strerror)


class NetworkPolicy:
    """``allowed``: the networks that may be connected to, or None for all but the refused ones. A refused address needs
    an entry of its own: a network that contains it together with others, such as 0.0.0.0/0, does not permit it."""

    def __init__(self, allowed: Sequence[str] | None) -> None:
        self._allowed = None if allowed is None else [_network(text) for text in allowed]
        self._excepted = [
            each for each in self._allowed or () if any(_is_within(each, refused) for refused in _REFUSED)
        ]

    def why_refused(self, address: str) -> str:
        """The reason; empty for a permitted address. ``address``: an IP address, with or without a zone. An IPv6
        address that stands for an IPv4 address is judged as both."""
        forms = list(_forms(ip_address(address)))
        if _among(forms, self._excepted):
            return ""
        for network, reason in _REFUSED.items():
            if _among(forms, [network]):
                return f"{address} is {reason}; allow_networks may permit it by name"
        if self._allowed is not None and not _among(forms, self._allowed):
            return f"{address} is in none of allow_networks"
        return ""

    def new_socket(self, info: AddrInfoType) -> socket.socket:
        """A socket for a connection to this very address, whatever a name resolved to before. Raises AddressRefused."""
        family, kind, protocol, _, address = info
        if reason := self.why_refused(str(address[0])):
            raise AddressRefused(reason)
        return socket.socket(family, kind, protocol)


def _network(text: str) -> _Network:
    """The network of an entry; of an IPv4-mapped entry, the IPv4 network."""
    network = ip_network(text)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & 0xFFFF_FFFF, network.prefixlen - _MAPPED.prefixlen))
    return network


def _forms(address: _Address) -> Iterator[_Address]:
    """The address, and the IPv4 address in it."""
    yield address
    if isinstance(address, IPv4Address):
        return
    if any(address in network for network in _LAST_32_BITS):
        yield IPv4Address(int(address) & 0xFFFF_FFFF)
    elif address in _6TO4:
        yield IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)


def _among(forms: Sequence[_Address], networks: Sequence[_Network]) -> bool:
    return any(form in network for form in forms for network in networks)


def _is_within(network: _Network, other: _Network) -> bool:
    return network.version == other.version and network.subnet_of(other)  # type: ignore[arg-type]


# ── Requests and responses ───────────────────────────────────────────────────

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


# ── The endpoint ─────────────────────────────────────────────────────────────


class RequestFailed(SinkUnavailable):
    """A request was not answered, or an earlier step was refused. The message is for the operator and holds no
    secret."""

    def __init__(self, reason: str, *, unavailable: bool, after: float | None = None) -> None:
        """``unavailable``: another request would fail too, as no connection could be made, for instance. ``after``:
        seconds that the endpoint asked the sink to wait."""
        super().__init__(reason)
        self._unavailable = unavailable
        self._after = after

    def retry_later(self) -> RetryLater:
        return RetryLater(str(self), self._after, unavailable=self._unavailable)


class _AskingConnector(aiohttp.TCPConnector):
    """Asks before each request, when the request has its connection: it may have waited long for that. What waited
    before (for a turn, a token, an answer to the request in front) is covered, too."""

    def __init__(self, may_send: Callable[[], bool], **settings: Any) -> None:
        super().__init__(**settings)
        self._may_send = may_send

    async def connect(self, *args: Any, **settings: Any) -> aiohttp.connector.Connection:
        """Raises NotLeading."""
        connection = await super().connect(*args, **settings)
        if not self._may_send():
            connection.close()
            raise NotLeading
        return connection


class HttpEndpoint:
    """``open`` before ``request``. Reads certificates again when their files change, whatever an endpoint says: with
    TLS 1.3 it refuses a client's certificate behind the handshake, by a connection that breaks, and a proxy does so by
    a response. Those of the system are read again when no connection could be made."""

    def __init__(
        self,
        url: str,
        *,
        timeout: float,
        connections: int,
        networks: NetworkPolicy,
        tls: TlsFiles,
        may_send: Callable[[], bool] = always,
    ) -> None:
        """``timeout``: seconds for a request and its response. ``may_send``: see SinkContext."""
        parts = urlsplit(url)
        self.name = f"{parts.scheme}://{parts.netloc}"
        """The endpoint in messages. Without path and query, which may hold a secret."""
        self._url = url
        self._timeout = timeout
        self._connections = connections
        self._networks = networks
        self._tls = tls
        self._renewed = tls.watched()
        self._may_send = may_send
        self._client: HttpClient | None = None
        self._opening = asyncio.Lock()
        self._stale = False
        """No connection could be made: certificates may have been renewed."""

    async def open(self) -> None:
        """Makes the client; sends no request. Raises WrongOption."""
        if self._client is not None and not self._stale and not self._renewed.found():
            return
        async with self._opening:
            if self._client is None or self._stale or self._renewed.found():
                new = await self._new_client()
                # Requests in flight go on with the former client, which closes after the last of them.
                former, self._client = self._client, new
                self._stale = False
                if former is not None:
                    await former.retire()

    async def request(
        self, method: str, headers: dict[str, str], body: bytes, *, keep: int = 0, target: str = ""
    ) -> HttpResponse:
        """May run beside other requests. ``keep``, ``target``: see HttpClient. Raises RequestFailed, NotLeading."""
        client = self._client
        if client is None:
            raise RuntimeError("request() before open()")
        try:
            async with asyncio.timeout(self._timeout):
                return await client.request(method, headers, body, keep=keep, target=target)
        except TimeoutError:
            raise RequestFailed(f"{self.name} did not answer within {self._timeout:g} s", unavailable=False) from None
        except HTTP_ERRORS as error:
            unreachable = is_unreachable(error)
            self._stale = self._stale or (unreachable and client is self._client)
            raise RequestFailed(f"{self.name} {describe(error)}", unavailable=unreachable) from error

    async def close(self) -> None:
        client, self._client = self._client, None
        self._stale = False
        if client is not None:
            await client.retire()

    async def _new_client(self) -> HttpClient:
        tls: ssl.SSLContext | bool = False
        if self._url.startswith("https:"):
            # Looked at before the files are read, and kept behind it: half of a renewal is read once more.
            renewed = self._tls.watched()
            tls = await asyncio.to_thread(self._tls.context)
            self._renewed = renewed

        def session() -> aiohttp.ClientSession:
            # A connection for each lane, and no cookies: requests must not depend on each other.
            connector = _AskingConnector(
                self._may_send, ssl=tls, limit=self._connections, socket_factory=self._networks.new_socket
            )
            return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

        # trust_env=False: a proxy of the environment is not meant for records.
        transport = AiohttpTransport(verify=tls, trust_env=False, client=session)
        return HttpClient(transport, self._url)
