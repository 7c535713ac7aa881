"""Addresses: whose they are, and where they lead."""

from __future__ import annotations

import pytest

from bridge.model.primitives.network import client_of, host_and_port, is_loopback


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_traffic_to_the_loopback_stays_on_the_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "10.0.0.1", "0.0.0.0", "::", "localhost.example", "127.0.0.1.example"])
def test_any_other_host_may_be_another_machine(host: str) -> None:
    assert not is_loopback(host)


def test_an_ipv6_address_has_brackets_before_its_port() -> None:
    assert (host_and_port("127.0.0.1", 80), host_and_port("::1", 80), host_and_port("", 80)) == (
        "127.0.0.1:80",
        "[::1]:80",
        ":80",
    )


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("a name", "a name"),
    ],
)
def test_a_client_is_an_ipv4_address_or_a_network_of_ipv6(address: str, client: str) -> None:
    assert client_of(address) == client
