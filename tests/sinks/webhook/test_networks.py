"""A sink connects to permitted addresses only, whatever a name resolves to."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sinks.base import ALL_STORED, SinkContext, SinkUnavailable
from sinks.webhook.client import NetworkPolicy
from tests.kit.records import a_delta
from tests.kit.sinks import deliver_once, failure_of
from tests.kit.webhook_receiver import WebhookReceiver
from tests.sinks.webhook.test_sink import a_sink

REFUSED = ["169.254.169.254", "169.254.0.1", "169.254.170.2", "fe80::1", "fe80::1%1", "fd00:ec2::254", "fd20:ce::254"]
CLUSTER = [
    "127.0.0.1",
    "::1",
    "10.96.0.1",
    "172.16.0.9",
    "192.168.1.1",
    "fd00::1",
    "100.64.0.1",
    "203.0.113.7",
    "2001:db8::1",
]
MADE_OF_IPV4 = {
    "mapped": lambda four: IPv6Address(0xFFFF << 32 | int(four)),
    "compatible": lambda four: IPv6Address(int(four)),
    "NAT64": lambda four: IPv6Address(int(IPv6Address("64:ff9b::")) | int(four)),
    "6to4": lambda four: IPv6Address(0x2002 << 112 | int(four) << 80 | 1),
}


@pytest.mark.parametrize("address", REFUSED)
def test_addresses_of_credentials_are_refused_by_default(address: str) -> None:
    assert NetworkPolicy(None).why_refused(address).startswith(f"{address} is ")
    assert NetworkPolicy(["0.0.0.0/0", "::/0"]).why_refused(address), "an entry for everything names none of them"
    assert not NetworkPolicy([address.partition("%")[0]]).why_refused(address)


@pytest.mark.parametrize("address", CLUSTER)
def test_private_and_public_addresses_are_permitted(address: str) -> None:
    assert NetworkPolicy(None).why_refused(address) == ""
    assert NetworkPolicy(["192.0.2.0/24"]).why_refused(address) == f"{address} is in none of allow_networks"


@pytest.mark.parametrize("form", MADE_OF_IPV4)
@given(four=st.ip_addresses(v=4, network="169.254.0.0/16"))
def test_ipv6_forms_of_a_refused_address_are_refused(form: str, four: IPv4Address) -> None:
    address = str(MADE_OF_IPV4[form](four))

    assert NetworkPolicy(None).why_refused(address)
    assert not NetworkPolicy(["169.254.0.0/16"]).why_refused(address)


@given(address=st.ip_addresses(v=4), allowed=st.ip_addresses(v=4))
def test_a_mapped_address_is_judged_as_its_ipv4_address(address: IPv4Address, allowed: IPv4Address) -> None:
    for networks in (None, [f"{allowed}"], [f"{allowed}", f"{address}"]):
        policy = NetworkPolicy(networks)
        mapped = str(MADE_OF_IPV4["mapped"](address))
        assert bool(policy.why_refused(str(address))) == bool(policy.why_refused(mapped))


# ── Connections ──────────────────────────────────────────────────────────────


class Names:
    """Resolves every name to ``addresses``, which a test changes."""

    def __init__(self, port: int) -> None:
        self.addresses: Sequence[str] = ()
        self.asked = 0
        self._port = port

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> list[Any]:
        self.asked += 1
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, self._port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, self._port))
            for address in self.addresses
        ]


@pytest.fixture
def names(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names(int(receiver.url.split(":")[2].split("/")[0]))
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", lambda _, *args, **more: names.getaddrinfo(*args, **more))
    return names


@pytest.mark.parametrize("rebound", ["169.254.169.254", "::ffff:169.254.169.254", "fe80::1"])
async def test_a_name_that_comes_to_mean_another_address(receiver: WebhookReceiver, names: Names, rebound: str) -> None:
    sink = a_sink("http://hook.example/hook")
    await sink.open(SinkContext())
    names.addresses = ["127.0.0.1"]
    assert await sink.deliver([a_delta(1)]) == ALL_STORED

    await receiver.stop()
    while "cannot be reached" not in failure_of(await sink.deliver([a_delta(2)])):
        pass  # The connection that was open was found closed. Only a new connection resolves names anew.
    await receiver.start()
    names.addresses = [rebound]
    receipt = await sink.deliver([a_delta(2)])
    await sink.close()

    assert f"cannot be reached: {rebound} is " in failure_of(receipt)
    assert receipt.failure is not None
    assert receipt.failure.unavailable
    assert len(receiver.accepted) == 1


async def test_of_several_addresses_a_permitted_one_is_used(receiver: WebhookReceiver, names: Names) -> None:
    names.addresses = ["169.254.169.254", "fe80::1", "127.0.0.1"]

    assert await deliver_once(a_sink("http://hook.example/hook"), [a_delta()]) == ALL_STORED


async def test_an_address_outside_of_the_networks_is_not_asked(receiver: WebhookReceiver) -> None:
    sink = a_sink(receiver.url, allow_networks=["10.0.0.0/8"])
    await sink.open(SinkContext())
    receipt = await sink.deliver([a_delta()])
    with pytest.raises(SinkUnavailable, match=r"127\.0\.0\.1 is in none of allow_networks"):
        await sink.check()
    await sink.close()

    assert failure_of(receipt).endswith("cannot be reached: 127.0.0.1 is in none of allow_networks")
    assert receiver.asked == []


@pytest.mark.parametrize("host", ["2852039166", "0xA9FEA9FE", "169.254.43518"])
async def test_unusual_spellings_of_an_address_are_no_way_around(host: str) -> None:
    receipt = await deliver_once(a_sink(f"http://{host}/"), [a_delta()])

    # Some spellings are refused as no URL, others are resolved.
    assert re.search("169.254.169.254 is a link-local address|InvalidUrlClientError", failure_of(receipt))
