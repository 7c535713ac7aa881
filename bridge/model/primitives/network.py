"""Reads network addresses, and words why a connection cannot be made, for the operator.

Reasons are the system's or OpenSSL's own words, with the option that helps. Where a client and a server do not agree on
HTTP or HTTPS, these words do not say so: the beginning of the answer, or the kind of the failed handshake, does.
"""

from __future__ import annotations

import os
import ssl
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


_UNKNOWN_ISSUER = frozenset({2, 18, 19, 20, 21})
_ANOTHER_NAME = frozenset({62, 64})
"""OpenSSL's X509_V_ERR: an unknown issuer in its forms; another host, or another address."""


def why_unconnected(error: OSError) -> str:
    """The system's text: asyncio hides "Connection refused" behind "Connect call failed ('127.0.0.1', 9)"."""
    # The number of an error of TLS is none of the system's; that of a name that cannot be resolved is negative.
    if error.errno is None or error.errno < 0 or isinstance(error, ssl.SSLError):
        return error.strerror or str(error) or type(error).__name__
    return os.strerror(error.errno)


def why_unverified(error: BaseException, ca_file: str) -> str:
    """The reason of an ``ssl.SSLCertVerificationError``, with what helps. ``ca_file``: the option of the authority."""
    reason = getattr(error, "verify_message", "") or str(error)
    code = getattr(error, "verify_code", None)
    if code in _UNKNOWN_ISSUER:
        return f"{reason}; {ca_file} must name the authority that signed it"
    if code in _ANOTHER_NAME:
        return f"{reason}; give the server the name that its certificate has"
    return reason


_COMPLAINTS = (
    b"HTTP request to an HTTPS server",  # Go
    b"plain HTTP request was sent to HTTPS port",  # nginx
    b"speaking plain HTTP to an SSL-enabled server port",  # Apache
)
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's reasons for a TLS handshake that is answered in plain HTTP."""
BEGINNING = 1024
"""Bytes: servers complain within the beginning of the answer."""


def wants_https(status: int, beginning: bytes) -> bool:
    """Whether an answer to plain HTTP comes from a server that speaks HTTPS on the port."""
    return status == 400 and any(words in beginning for words in _COMPLAINTS)


def wants_http(error: BaseException | None) -> bool:
    """Whether a TLS handshake failed because the server speaks plain HTTP on the port."""
    return isinstance(error, ssl.SSLError) and error.reason in _NO_TLS
