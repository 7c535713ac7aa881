"""Access tokens by the client credentials grant of OAuth 2.0 (RFC 6749, 4.4)."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime
from urllib.parse import quote_plus, urlencode

import msgspec

from sinks.secret_files import read_secret
from sinks.tls import TlsFiles
from sinks.webhook.auth.authorization import is_token
from sinks.webhook.auth.token_cache import AccessToken
from sinks.webhook.http.client import HttpResponse
from sinks.webhook.http.endpoint import HttpEndpoint, RequestFailed
from sinks.webhook.http.networks import NetworkPolicy
from sinks.webhook.http.responses import seconds_of
from sinks.webhook.option_sections import ClientAuth, OAuth2Options
from sinks.webhook.options import WebhookOptions

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
        if len(answer.access_token) > _LONGEST or not is_token(answer.access_token):
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
