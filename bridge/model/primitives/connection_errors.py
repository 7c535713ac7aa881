"""Why a connection cannot be made, in words for the operator. Pure."""

from __future__ import annotations

import os
import ssl

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
