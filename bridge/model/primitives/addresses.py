"""Hosts and ports of network addresses. Pure."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network


def is_loopback(host: str) -> bool:
    """Whether traffic to this host stays on the machine. ``host``: a name, or an IP address, with brackets or without.
    Of names, only localhost counts, since any other name may come to mean another machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def client_of(address: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network of an IPv6 address, since whoever has one address
    of such a network has them all. Any other text is a client of its own."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False))


def host_and_port(host: str, port: int) -> str:
    """``127.0.0.1:8080``; an IPv6 address in brackets, ``[::1]:8080``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
