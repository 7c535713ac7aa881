"""The addresses that a sink may connect to.

Link-local addresses and those where clouds serve credentials of the machine are refused: a URL, or a name that suddenly
resolves there, must not turn the bridge against its own machine. Loopback and private networks are permitted, because
endpoints inside a cluster have such addresses.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from aiohttp import AddrInfoType

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
