"""Chooses the HTTP proxy between us and the API server, by a URL or by the rules of Go's environment variables."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from ipaddress import ip_address, ip_network

import httpx

from bridge.kube.auth.credentials import CredentialsError
from bridge.model.primitives.network import is_loopback

_DEFAULT_PORT = {"http": 80, "https": 443}


def proxy_from_url(url: str, whose: str) -> httpx.Proxy:
    """The proxy of a URL; ``whose`` names the setting. Raises CredentialsError, without the URL in its message: it may
    hold a password."""
    try:
        proxy = httpx.Proxy(url)
    except (ValueError, httpx.InvalidURL):
        proxy = None
    if proxy is None or proxy.url.scheme not in _DEFAULT_PORT:
        raise CredentialsError(f"{whose} must be an http:// or https:// URL; other proxies are not supported")
    if proxy.raw_auth is None:
        return proxy
    # The header is made here, because the transport would make it with a deprecated part of aiohttp.
    login = base64.b64encode(b":".join(proxy.raw_auth)).decode()
    return httpx.Proxy(proxy.url, headers={"Proxy-Authorization": f"Basic {login}"})


def proxy_from_environment(server: httpx.URL, environ: Mapping[str, str]) -> httpx.Proxy | None:
    """The proxy by the rules of Go's ``http.ProxyFromEnvironment``: loopback needs no proxy, and NO_PROXY accepts
    networks too. None for a direct connection. Raises CredentialsError."""
    # Capitals sort first, so that the name in small letters wins, as in other programs.
    settings = {name.lower(): value for name, value in sorted(environ.items()) if name.lower().endswith("_proxy")}
    url = settings.get(f"{server.scheme}_proxy")
    if not url or is_loopback(server.host):
        return None
    if any(_covers(entry.strip().lower(), server) for entry in settings.get("no_proxy", "").split(",")):
        return None
    return proxy_from_url(url if "://" in url else f"http://{url}", f"{server.scheme.upper()}_PROXY")


def _covers(entry: str, server: httpx.URL) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(server.host) in ip_network(entry, strict=False)
    except ValueError:
        pass  # The host or the entry is a name, not an address.
    name, _, port = entry.removeprefix("*").partition(":")
    if not name or (port and port != str(server.port or _DEFAULT_PORT[server.scheme])):
        return False
    # "example.com" and ".example.com": the second leaves out the domain itself.
    return f".{server.host}".endswith(f".{name.lstrip('.')}") and server.host != name[1:]
