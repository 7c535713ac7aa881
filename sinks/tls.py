"""TLS for sinks whose clients take an ``ssl.SSLContext``."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sinks.errors import WrongOption
from sinks.secret_files import RenewedFiles

Step: TypeAlias = Callable[[], object]


def check_tls_files(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> Iterator[Step]:
    """Yields a step for each option that checks its file. Each step raises WrongOption when the file cannot be used."""
    if ca_file is not None:
        yield partial(tls_context, ca_file, None, None)
    if cert_file is not None:
        yield partial(tls_context, None, cert_file, key_file)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a client."""

    ca_file: Path | None
    cert_file: Path | None = None
    key_file: Path | None = None
    section: str = ""
    """Of the options that name the files; empty for the sink's own."""

    def context(self) -> ssl.SSLContext:
        """See ``tls_context``."""
        try:
            return tls_context(self.ca_file, self.cert_file, self.key_file)
        except WrongOption as wrong:
            raise WrongOption(
                f"{self.section}.{wrong.option}" if self.section else wrong.option, wrong.reason
            ) from wrong

    def watched(self) -> RenewedFiles:
        """Notices that they change from now on."""
        return RenewedFiles([self.ca_file, self.cert_file, self.key_file])


def tls_context(ca_file: Path | None, cert_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """A context that verifies the server, by the authorities of the system or of ``ca_file``, and shows the certificate
    of ``cert_file``. Reads the files at every call, so that renewed files are used. Blocks. Raises WrongOption."""
    for option, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        if file is not None:
            _expect_readable(option, file)
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise WrongOption("ca_file", f"{ca_file} is no certificate authority in PEM: {_why(error)}") from error
    # Python 3.13 sets this flag, but the certificates of many private authorities lack the key usage or key identifiers
    # of RFC 5280.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert_file is not None:
        try:
            # Without this callback OpenSSL would ask for a password on the terminal.
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


def _no_password() -> str:
    raise ValueError("the key is encrypted; give a key without a password, readable by the bridge alone")
