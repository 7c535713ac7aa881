"""TLS for sinks whose clients take an ``ssl.SSLContext``, and where none is needed."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path

from sinks.base import SinkUnavailable


def tls_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Verifies the other side, by the system's authorities or by those in ``ca_file``; shows a certificate where one is
    given. Reads the files anew at every call, so that renewed ones are used. Raises SinkUnavailable naming the file."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SinkUnavailable(f"cannot use ca_file {ca_file}: {error}") from error
    # Python 3.13 sets it, and many private authorities have no key usage or key identifiers (RFC 5280) in theirs.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert_file is not None:
        try:
            # A password is never asked for on the terminal: an encrypted key is an error here.
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise SinkUnavailable(f"cannot use cert_file {cert_file} with key_file {key_file}: {error}") from error
    return context


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on the machine. A name other than localhost counts as elsewhere."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not, readable by the bridge alone")
