"""TLS for sinks whose clients take an ``ssl.SSLContext``, and where none is needed."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sinks.base import WrongOption

Step: TypeAlias = Callable[[], object]


def check_tls_files(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> Iterator[Step]:
    """One step for each option: its file is there and can be used. A step raises WrongOption."""
    if ca_file is not None:
        yield partial(tls_context, ca_file, None, None)
    if cert_file is not None:
        yield partial(tls_context, None, cert_file, key_file)


def tls_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Verifies the other side, by the system's authorities or by those in ``ca_file``; shows a certificate where one is
    given. Reads the files anew at every call, so that renewed ones are used. Raises WrongOption."""
    for option, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        if file is not None:
            _expect_readable(option, file)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise WrongOption("ca_file", f"{ca_file} is no certificate authority in PEM: {_why(error)}") from error
    # Python 3.13 sets it, and many private authorities have no key usage or key identifiers (RFC 5280) in theirs.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert_file is not None:
        try:
            # A password is never asked for on the terminal: an encrypted key is an error here.
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            which = f"{cert_file} with the key_file {key_file}" if key_file else f"{cert_file}, certificate and key,"
            reason = f"{which} cannot be used: {_why(error)}; both must be PEM, and belong together"
            raise WrongOption("cert_file", reason) from error
    return context


def _expect_readable(option: str, file: Path) -> None:
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise WrongOption(option, f"cannot read {file}: {error.strerror}") from error


def _why(error: Exception) -> str:
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()


def is_loopback(host: str) -> bool:
    """Whether what is sent to this host stays on the machine. A name other than localhost counts as elsewhere."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _no_password() -> str:
    raise ValueError("the key is encrypted; give one that is not, readable by the bridge alone")
