"""Hosts and ports of network addresses. Pure."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether traffic to this host stays on the machine. ``host``: a name, or an IP address, with brackets or without.
    Of names, only localhost counts, since any other name may come to mean another machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def host_and_port(host: str, port: int) -> str:
    """``127.0.0.1:8080``; an IPv6 address in brackets, ``[::1]:8080``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
