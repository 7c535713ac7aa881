"""The connection of a sink to its endpoint: it holds the secrets, the token and the HTTP client, keeps the rate, and
asks for the endpoint's consent before the first delivery.

Consent is the abuse protection of CloudEvents' HTTP WebHooks (section 4): the endpoint agrees to deliveries, and may
name a rate. The rate is a token bucket, of which the lower of the operator's and the endpoint's rate holds.

``examine`` checks the options without the endpoint: the files that they name, and addresses that need no resolver.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from bridge.model.primitives.network import BEGINNING, wants_https
from sinks.keys import WebhookKey, keys_in
from sinks.receipt import WrongOption, wrong_options
from sinks.secret_files import SecretFile, Step, TlsFiles, check_tls_files, read_secret
from sinks.webhook.authorization import TokenCache, TokenEndpoint, authorization_of, trusted_authorities
from sinks.webhook.client import HttpEndpoint, HttpResponse, NetworkPolicy, RequestFailed
from sinks.webhook.options import HEADER_VALUE, UrlTemplate, WebhookOptions, has_expressions
from sinks.webhook.responses import UNAUTHORIZED, EndpointRefusals


class RateLimit:
    """Holds up to ``burst`` tokens and gains ``rate`` tokens a second; a request takes a token, or waits for its own.
    Requests begin in the order of ``wait``, and in any span of n seconds at most ``burst + n * rate`` of them.

    A caller that is cancelled while it waits loses its token, so that no later request begins too early."""

    def __init__(self, rate: float, burst: int = 1) -> None:
        self._interval = 1 / rate
        self._burst = burst
        self._next = float("-inf")
        """When a bucket that is empty now has its next token."""
        self._now = asyncio.get_running_loop().time

    def bound(self, rate: float) -> None:
        """Lowers the rate to this one; a higher rate has no effect."""
        self._interval = max(self._interval, 1 / rate)

    async def wait(self) -> None:
        """Returns when the next request may begin."""
        now = self._now()
        begin = max(self._next, now - (self._burst - 1) * self._interval)
        self._next = begin + self._interval
        if begin > now:
            await asyncio.sleep(begin - now)


ORIGIN = "webhook-request-origin"
"""The header that names the sender, in the validation request and in each delivery."""

Ask: TypeAlias = Callable[[Mapping[str, str]], Awaitable[HttpResponse]]


class Consent:
    """Sends one validation request, whoever waits for it. The permission holds until the sink is closed."""

    def __init__(self, origin: str, endpoint: str, ask: Ask, *, per_minute: float | None) -> None:
        """``endpoint``: its name in messages. ``ask``: sends an OPTIONS request with further headers. ``per_minute``:
        the rate to ask for; None to ask for none."""
        self._origin = origin
        self._endpoint = endpoint
        self._ask = ask
        self._per_minute = per_minute
        self._asking = asyncio.Lock()
        self._permitted: float | None = None
        """Requests a second; None before the permission."""

    async def obtain(self) -> float:
        """The rate that the endpoint permits, in requests a second; infinite if it sets no limit. Raises RequestFailed:
        the endpoint did not answer, or does not agree."""
        if self._permitted is None:
            async with self._asking:
                if self._permitted is None:
                    headers = {ORIGIN: self._origin}
                    if self._per_minute is not None:
                        headers["webhook-request-rate"] = str(max(1, int(self._per_minute)))
                    self._permitted = self._permission_in(await self._ask(headers))
        return self._permitted

    def _permission_in(self, response: HttpResponse) -> float:
        """The status says nothing: a server that does not know the protocol may answer OPTIONS with 200."""
        allowed = response.headers.get("webhook-allowed-origin", "").strip()
        if allowed != "*" and allowed.lower() != self._origin.lower():
            found = "for another origin only" if allowed else "without WebHook-Allowed-Origin"
            raise self._refused(
                f"answers {response.status} to OPTIONS {found}; permission by callback is not supported"
            )
        rate = response.headers.get("webhook-allowed-rate", "*").strip()
        if rate == "*":
            return inf
        if not re.fullmatch("[0-9]{1,9}", rate) or not int(rate):
            raise self._refused("answers OPTIONS with a WebHook-Allowed-Rate that is no number of requests per minute")
        return int(rate) / 60

    def _refused(self, reason: str) -> RequestFailed:
        return RequestFailed(
            f"{self._endpoint} does not agree to deliveries (request_origin): it {reason}", unavailable=True
        )


_LONG = 8
"""Characters. A shorter path or public header value may be in a response by chance, so it is not redacted."""
_BEARER = "Bearer "


class WebhookConnection:
    """``open`` before ``request``. Reads files of secrets and certificates again when they change."""

    def __init__(self, options: WebhookOptions, may_send: Callable[[], bool]) -> None:
        """Make it in an event loop. ``may_send``: see SinkContext."""
        self._options = options
        self._secret_headers = _secret_headers_of(options)
        self._authorization = authorization_of(options)
        self._keys = _keys_of(options)
        self._template = UrlTemplate(options.url) if has_expressions(options.url) else None
        networks = NetworkPolicy(options.allow_networks)
        self._endpoint = HttpEndpoint(
            options.url if self._template is None else self._template.base,
            timeout=options.timeout,
            connections=options.concurrency,
            networks=networks,
            tls=TlsFiles(options.ca_file, options.cert_file, options.key_file),
            may_send=may_send,
        )
        self.name = self._endpoint.name
        self.request = self._endpoint.request
        self._token_endpoint: TokenEndpoint | None = None
        self._tokens: TokenCache | None = None
        self._consent: Consent | None = None
        if options.oauth2 is not None:
            self._token_endpoint = TokenEndpoint(options.oauth2, options, networks)
            self._tokens = TokenCache(self._token_endpoint.request)
        rate = options.rate
        self._rate = RateLimit(inf) if rate is None else RateLimit(rate.per_second, rate.burst)
        if (origin := options.request_origin) is not None:
            per_minute = None if rate is None else rate.per_second * 60
            self._consent = Consent(origin, self.name, self._options_request, per_minute=per_minute)
        self.prepares = any((options.oauth2, rate, origin))
        """Requests need ``prepare``."""
        self.refusals = EndpointRefusals()
        self.headers: dict[str, str] = {}
        """The headers of every request, without those of ``prepare``. Names are in lower case."""
        self.keys: tuple[WebhookKey, ...] = ()
        """The keys of ``secret_file``, for signatures."""

    async def open(self) -> None:
        """Reads changed secrets and makes the client; sends no request. Raises SinkUnavailable."""
        self._read_secrets()
        await self._endpoint.open()

    async def prepare(self) -> Mapping[str, str]:
        """Waits until the next request may be sent, and returns its further headers. Raises SinkUnavailable."""
        if self._consent is not None:
            self._rate.bound(await self._consent.obtain())
        headers = await self._token()
        if self._options.request_origin is not None:
            headers[ORIGIN] = self._options.request_origin
        await self._rate.wait()
        return headers

    async def _token(self) -> dict[str, str]:
        return {} if self._tokens is None else {"authorization": _BEARER + await self._tokens.get()}

    async def _options_request(self, more: Mapping[str, str]) -> HttpResponse:
        headers = {**self.headers, **await self._token(), **more}
        response = await self.request("OPTIONS", headers, b"", keep=1)
        if response.status == UNAUTHORIZED:
            self.reject_token(headers)
        return response

    def reject_token(self, headers: Mapping[str, str]) -> bool:
        """The endpoint refused a request with these headers. Returns True if another token may help."""
        if self._tokens is None:
            return False
        self._tokens.reject(headers["authorization"].removeprefix(_BEARER))
        return True

    async def ping(self) -> str:
        """Sends an OPTIONS request and returns a few words about the response. Raises SinkUnavailable."""
        await self.open()
        if self._consent is not None:
            await self._consent.obtain()
            return f"{self.name} agrees to deliveries from {self._options.request_origin}"
        response = await self._options_request({})
        if reason := self.wants_https(response):
            raise WrongOption("url", reason)
        return f"{self.name} answers ({response.status} to OPTIONS)"

    def wants_https(self, response: HttpResponse) -> str:
        """The reason, if this response says that the port expects HTTPS; otherwise empty. Such a server answers 400,
        like an endpoint that rejects a record."""
        if not wants_https(response.status, response.body[:BEGINNING]):
            return ""
        return f"{self.name} answers 400: it speaks HTTPS on this port: write https:// in url"

    def secrets(self, sent: Mapping[str, str], target: str) -> list[str]:
        """Values that an excerpt of a response must not repeat: secret headers, long public headers, keys, signatures,
        and the URL behind the host. ``sent``: the headers of the request. ``target``: its path and query, if they are
        not those of ``url``."""
        values = [self.headers[name.lower()] for name in self._secret_headers]
        values += [sent[name] for name in ("authorization",) if name in sent]
        public = (sent.get(name.lower(), value) for name, value in self._options.headers.items())
        values += [value for value in public if len(value) >= _LONG]
        values += sent.get("webhook-signature", "").split()
        values += [text for key in self.keys for text in key.encoded]
        parts = urlsplit(target or self._options.url)
        values += [value for _, value in parse_qsl(parts.query)]
        targets = [f"{parts.path}?{parts.query}", parts.path, parts.query]
        targets += [] if self._template is None else self._template.literals
        return values + [target for target in targets if len(target) >= _LONG]

    async def close(self) -> None:
        await self._endpoint.close()
        if self._token_endpoint is not None:
            await self._token_endpoint.close()

    def _read_secrets(self) -> None:
        secrets = {name: read() for name, read in self._secret_headers.items()}
        public = {name: value for name, value in self._options.headers.items() if not has_expressions(value)}
        chosen = {name.lower(): value for name, value in (public | secrets).items()}
        if self._authorization is not None:
            chosen["authorization"] = self._authorization()
        self.headers = {"user-agent": "kubedelta"} | chosen
        if self._keys is not None:
            self.keys = self._keys()


# ── The files of secrets, and the options ────────────────────────────────────


def _secret_headers_of(options: WebhookOptions) -> Mapping[str, Callable[[], str]]:
    """Name → what returns the present value, and raises WrongOption where that cannot be the value of a header."""

    def reading(option: str, path: Path) -> Callable[[], str]:
        file = SecretFile(path, option)

        def read() -> str:
            value = file.read()
            if not re.fullmatch(HEADER_VALUE.pattern, value):
                raise WrongOption(option, f"{path} is not one line of printable ASCII")
            return value

        return read

    return {name: reading(f"header_files.{name}", path) for name, path in options.header_files.items()}


def _keys_of(options: WebhookOptions) -> Callable[[], tuple[WebhookKey, ...]] | None:
    """Returns the present keys, and raises WrongOption. None without an option for them."""
    if (path := options.secret_file) is None:
        return None
    file = SecretFile(path, "secret_file")
    return lambda: keys_in(file.read(), path)


def examine(options: WebhookOptions) -> Sequence[WrongOption]:
    return wrong_options(_steps(options))


def _steps(options: WebhookOptions) -> Iterator[Step]:
    yield from check_tls_files(options.ca_file, options.cert_file, options.key_file)
    yield from _secret_headers_of(options).values()
    yield from filter(None, (_keys_of(options), authorization_of(options)))
    networks = NetworkPolicy(options.allow_networks)
    yield partial(_address, "url", options.url, networks)
    if (oauth2 := options.oauth2) is not None:
        yield partial(read_secret, oauth2.client_secret_file, "oauth2.client_secret_file")
        yield partial(_address, "oauth2.token_url", oauth2.token_url, networks)
        yield trusted_authorities(oauth2, options).context


def _address(option: str, url: str, policy: NetworkPolicy) -> None:
    """Names are resolved, and their addresses checked, when a connection is made."""
    try:
        reason = policy.why_refused(urlsplit(url).hostname or "")
    except ValueError:
        return
    if reason:
        raise WrongOption(option, reason)
