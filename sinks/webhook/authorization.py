"""Makes the header Authorization of a webhook: HTTP Basic (RFC 7617) or Bearer (RFC 6750) from files, or an access
token by the client credentials grant of OAuth 2.0 (RFC 6749, 4.4).

Files are read again when they change. An access token is requested when it is first needed and renewed before its end;
however many deliveries wait, they share one request and its token, or its error. While an old token is valid, a failed
renewal stays without consequence. Texts of the token endpoint are shown nowhere, except known codes of errors.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote_plus, urlencode

import msgspec

from sinks.receipt import SinkUnavailable, WrongOption
from sinks.secret_files import SecretFile, TlsFiles, read_secret
from sinks.webhook.client import HttpEndpoint, HttpResponse, NetworkPolicy, RequestFailed
from sinks.webhook.options import ClientAuth, OAuth2Options, WebhookOptions
from sinks.webhook.responses import seconds_of

# ── From files ───────────────────────────────────────────────────────────────

_TOKEN = re.compile(r"[\x21-\x7e]+")


def authorization_of(options: WebhookOptions) -> Callable[[], str] | None:
    """Makes the value of Authorization, at each call from the present content of its file. Raises WrongOption, without
    the content. None without an option for it."""
    if (path := options.password_file) is not None:
        return partial(_basic, SecretFile(path, "password_file"), path, options.username)
    if (path := options.bearer_token_file) is not None:
        return partial(_bearer, SecretFile(path, "bearer_token_file"), path)
    return None


def _basic(file: SecretFile, path: Path, username: str | None) -> str:
    password = file.read()
    if not password.isprintable():
        raise WrongOption("password_file", f"{path} is not one line of printable text")
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


def _bearer(file: SecretFile, path: Path) -> str:
    token = file.read().strip()
    if not _is_token(token):
        raise WrongOption("bearer_token_file", f"{path} holds no token: one word of printable ASCII")
    return f"Bearer {token}"


def _is_token(text: str) -> bool:
    """Whether the text can stand behind ``Bearer``."""
    return _TOKEN.fullmatch(text) is not None


# ── By OAuth 2.0 ─────────────────────────────────────────────────────────────

_EARLY = 0.1
"""Share of a token's lifetime before its end in which it is renewed."""
_EARLIEST = 60.0
"""Seconds before its end; a token is renewed no sooner than that."""
_RETRY = 10.0
"""Seconds between two attempts to renew a token that is still valid."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    text: str
    lifetime: float
    """Seconds, counted from the request for it. Infinite for a token without a known end."""


class TokenCache:
    """Makes one request at a time, whoever waits: all get its token, or its error."""

    def __init__(self, request: Callable[[], Awaitable[AccessToken]]) -> None:
        """``request`` raises SinkUnavailable."""
        self._request = request
        self._now = asyncio.get_running_loop().time
        self._token: str | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._requesting = asyncio.Lock()
        self._requests = 0
        self._error: SinkUnavailable | None = None
        """The error of the last request; None if it succeeded."""

    async def get(self) -> str:
        """A token that is valid now. Raises the error of ``request``, unless the present token has not ended."""
        if self._token is not None and self._now() < self._renew_at:
            return self._token
        if (token := self._valid_token) and self._requesting.locked():
            return token
        requests = self._requests
        async with self._requesting:
            if self._requests != requests:
                # The request of another caller has ended meanwhile. Its result is as good as that of a new request.
                if token := self._valid_token:
                    return token
                if self._error is not None:
                    raise self._error
            return await self._renewed()

    def reject(self, token: str) -> None:
        """The endpoint refuses this token: the next ``get`` requests another, unless another is there already."""
        if token == self._token:
            self._token = None

    @property
    def _valid_token(self) -> str | None:
        return self._token if self._now() < self._ends_at else None

    async def _renewed(self) -> str:
        began = self._now()
        try:
            found = await self._request()
        except SinkUnavailable as error:
            self._requests += 1
            self._error = error
            if (token := self._valid_token) is None:
                raise
            self._renew_at = self._now() + _RETRY
            return token
        self._requests += 1
        self._error = None
        self._token = found.text
        self._ends_at = began + found.lifetime
        self._renew_at = self._ends_at - min(found.lifetime * _EARLY, _EARLIEST)
        return found.text


_LARGEST = 64 * 1024
"""Bytes of an answer of the token endpoint."""
_LONGEST = 16 * 1024
"""Characters of a token. Servers refuse longer headers."""
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
_ERRORS = {
    "invalid_client": "see oauth2.client_id and oauth2.client_secret_file",
    "unauthorized_client": "this client may not use the client credentials grant",
    "invalid_scope": "see oauth2.scopes",
    "invalid_request": "see oauth2.scopes and oauth2.endpoint_params",
    "invalid_target": "see oauth2.endpoint_params",
    "unsupported_grant_type": "the server does not know the client credentials grant; see oauth2.token_url",
    "invalid_grant": "the server refuses the client credentials grant",
}
"""The error codes of RFC 6749 (5.2) and RFC 8707, and what to do. An answer's other texts are shown nowhere: they may
repeat the request."""


class _TokenAnswer(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: float | str | None = None


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: str


class TokenEndpoint:
    """Requests tokens. Every ``request`` reads the secret's file, so that a renewed secret is used."""

    def __init__(self, options: OAuth2Options, webhook: WebhookOptions, networks: NetworkPolicy) -> None:
        self._options = options
        self._endpoint = HttpEndpoint(
            options.token_url,
            timeout=webhook.timeout,
            connections=1,
            networks=networks,
            tls=trusted_authorities(options, webhook),
        )

    async def request(self) -> AccessToken:
        """Raises SinkUnavailable: the secret cannot be read, or the endpoint gives no token."""
        secret = read_secret(self._options.client_secret_file, "oauth2.client_secret_file")
        await self._endpoint.open()
        headers, body = _token_request(self._options, secret)
        try:
            response = await self._endpoint.request("POST", headers, body, keep=_LARGEST)
        except RequestFailed as error:
            raise RequestFailed(f"oauth2.token_url: {error}", unavailable=True) from error
        return self._token_in(response)

    async def close(self) -> None:
        await self._endpoint.close()

    def _token_in(self, response: HttpResponse) -> AccessToken:
        if not 200 <= response.status < 300:
            after = seconds_of(response.retry_after, datetime.now(UTC))
            raise self._failed(f"answers {response.status}{_why(response)}", after)
        if not response.complete:
            raise self._failed(f"answers with more than {_LARGEST >> 10} KiB")
        try:
            answer = msgspec.json.decode(response.body, type=_TokenAnswer)
            lifetime = float("inf") if answer.expires_in is None else float(answer.expires_in)
        except _UNREADABLE:
            raise self._failed("answers without an access token as JSON (access_token, token_type)") from None
        if answer.token_type.lower() != "bearer":
            raise self._failed("answers with a token of another type than Bearer")
        if len(answer.access_token) > _LONGEST or not _is_token(answer.access_token):
            raise self._failed(f"answers with a token that no header can hold: up to {_LONGEST} printable characters")
        if not lifetime > 0:
            raise self._failed("answers with a token that has ended already (expires_in)")
        return AccessToken(answer.access_token, lifetime)

    def _failed(self, reason: str, after: float | None = None) -> RequestFailed:
        return RequestFailed(f"oauth2.token_url: {self._endpoint.name} {reason}", unavailable=True, after=after)


def _token_request(options: OAuth2Options, secret: str) -> tuple[dict[str, str], bytes]:
    """Headers and body."""
    form = {"grant_type": "client_credentials", **options.endpoint_params}
    if options.scopes:
        form["scope"] = " ".join(options.scopes)
    headers = {
        "user-agent": "kubedelta",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/x-www-form-urlencoded",
    }
    if options.client_auth is ClientAuth.BASIC:
        # RFC 6749, 2.3.1: both are encoded as in a form before they are joined.
        pair = f"{quote_plus(options.client_id)}:{quote_plus(secret)}"
        headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    else:
        form |= {"client_id": options.client_id, "client_secret": secret}
    return headers, urlencode(form).encode()


def _why(response: HttpResponse) -> str:
    if 300 <= response.status < 400:
        return ": it redirects, which is not followed; set oauth2.token_url to where it leads"
    try:
        code = msgspec.json.decode(response.body, type=_ErrorAnswer).error
    except _UNREADABLE:
        return ""
    return f" ({code}): {_ERRORS[code]}" if code in _ERRORS else ""


def trusted_authorities(options: OAuth2Options, webhook: WebhookOptions) -> TlsFiles:
    """For ``token_url``."""
    return TlsFiles(webhook.ca_file) if options.ca_file is None else TlsFiles(options.ca_file, section="oauth2")
