from __future__ import annotations

import httpx
import pytest

from bridge.kube import CredentialsError
from bridge.kube.auth.connection import proxy_from_environment

PROXY = "http://proxy.example.test:3128"


def proxy(server: str, **environ: str) -> str | None:
    found = proxy_from_environment(httpx.URL(server), environ)
    return str(found.url) if found else None


def test_each_scheme_has_its_own_variable_and_small_letters_win() -> None:
    assert proxy("https://api.example.test", HTTPS_PROXY=PROXY) == PROXY
    assert proxy("https://api.example.test", HTTP_PROXY=PROXY) is None
    assert proxy("http://api.example.test", HTTP_PROXY=PROXY) == PROXY
    assert proxy("https://api.example.test", https_proxy=PROXY, HTTPS_PROXY="http://other.test") == PROXY
    assert proxy("https://api.example.test", HTTPS_PROXY="proxy.example.test:3128") == PROXY
    assert proxy("https://api.example.test", HTTPS_PROXY="") is None


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"])
def test_loopback_is_never_reached_through_a_proxy(server: str) -> None:
    assert proxy(server, HTTPS_PROXY=PROXY) is None


@pytest.mark.parametrize(
    ("server", "no_proxy", "passed_by"),
    [
        ("https://api.example.test", "*", True),
        ("https://api.example.test", "example.test", True),
        ("https://api.example.test", "other.test, API.example.test", True),
        ("https://api.example.test", ".example.test", True),
        ("https://api.example.test", "*.example.test", True),
        ("https://example.test", ".example.test", False),
        ("https://example.test", "example.test", True),
        ("https://badexample.test", "example.test", False),
        ("https://api.example.test:6443", "api.example.test:6443", True),
        ("https://api.example.test:6443", "api.example.test:443", False),
        ("https://api.example.test", "api.example.test:443", True),
        ("https://10.1.2.3:6443", "10.0.0.0/8", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16,10.1.2.3", True),
        ("https://10.1.2.3:6443", "192.168.0.0/16", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://api.example.test", "10.0.0.0/8", False),
        ("https://api.example.test", "", False),
    ],
)
def test_no_proxy_takes_names_domains_and_networks(server: str, no_proxy: str, passed_by: bool) -> None:
    assert (proxy(server, HTTPS_PROXY=PROXY, NO_PROXY=no_proxy) is None) == passed_by


def test_a_variable_that_is_no_url_is_named_without_its_value() -> None:
    with pytest.raises(CredentialsError) as raised:
        proxy("https://api.example.test", HTTPS_PROXY="socks5://me:hunter2@proxy.example.test")
    assert str(raised.value).startswith("HTTPS_PROXY must be an http:// or https:// URL")
    assert "hunter2" not in str(raised.value)
