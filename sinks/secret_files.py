"""Secrets and certificates are read from files: options hold paths only, so that secrets stay out of the configuration
and can be renewed while the bridge runs.

One rule holds for every file of passwords, tokens, keys, certificates and authorities: a file that was replaced or
changed is read again, at the latest for the attempt behind the next refusal. ``SecretFile`` reads a secret where each
use asks for its text; ``RenewedFiles`` notices a change where a client has read the files itself. ``tls_context`` makes
the ``ssl.SSLContext`` of sinks whose clients take one. Whatever cannot be used is a WrongOption that names the option,
and never the content.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sinks.receipt import WrongOption

_MAX_BYTES = 1 << 20
"""A chain of certificates has some thousand bytes."""


def read_secret(path: Path, option: str) -> str:
    """Returns the content of the file, without the newline at its end; never empty. Blocks. Raises WrongOption for
    ``option`` when the file cannot be read, is empty, or is larger than 1 MiB."""
    try:
        with path.open("rb") as file:
            # A byte more than the limit shows that the file is too large, without reading all of it.
            content = file.read(_MAX_BYTES + 1)
        text = content.decode().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongOption(option, f"cannot read the secret file {path}: {_read_reason(error)}") from error
    if len(content) > _MAX_BYTES:
        raise WrongOption(option, f"the secret file {path} is larger than {_MAX_BYTES >> 20}MiB")
    if not text.strip():
        raise WrongOption(option, f"the secret file {path} is empty")
    return text


def _read_reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not text (UTF-8)"


_Stamp: TypeAlias = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp:
    """Another one for a file that was replaced or changed. Kubernetes renews a mounted Secret by moving a link, which
    changes the inode. Raises OSError."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


class RenewedFiles:
    """Notices that files were renewed. Create it before a client reads them."""

    def __init__(self, paths: Iterable[Path | None]) -> None:
        """None for a file that the options do not name."""
        self._seen = {path: _stamp_or_none(path) for path in paths if path is not None}

    def found(self) -> bool:
        """Whether a file was replaced or changed since. A missing file does not count: it may be on its way."""
        return any(_stamp_or_none(path) not in (None, seen) for path, seen in self._seen.items())


def _stamp_or_none(path: Path) -> _Stamp | None:
    try:
        return _stamp(path)
    except OSError:
        return None


class SecretFile:
    """A secret that may be renewed while the bridge runs, as Kubernetes does with mounted Secrets."""

    def __init__(self, path: Path, option: str) -> None:
        self._path = path
        self._option = option
        self._seen: _Stamp | None = None
        self._content = ""

    def read(self) -> str:
        """Returns the present content. Reads the file only when it was replaced or changed (inode, modification time,
        size). Raises WrongOption."""
        try:
            seen = _stamp(self._path)
        except OSError as error:
            raise WrongOption(
                self._option, f"cannot read the secret file {self._path}: {_read_reason(error)}"
            ) from error
        if seen != self._seen:
            self._content = read_secret(self._path, self._option)
            self._seen = seen
        return self._content


# ── TLS ──────────────────────────────────────────────────────────────────────

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
        raise WrongOption("ca_file", f"{ca_file} is no certificate authority in PEM: {_tls_reason(error)}") from error
    # Python 3.13 sets this flag, but the certificates of many private authorities lack the key usage or key identifiers
    # of RFC 5280.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cert_file is not None:
        try:
            # Without this callback OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(cert_file, key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            which = f"{cert_file} with the key_file {key_file}" if key_file else f"{cert_file}, certificate and key,"
            reason = f"{which} cannot be used: {_tls_reason(error)}; both must be PEM, and belong together"
            raise WrongOption("cert_file", reason) from error
    return context


def _expect_readable(option: str, file: Path) -> None:
    try:
        with file.open("rb") as opened:
            opened.read(1)
    except OSError as error:
        raise WrongOption(option, f"cannot read {file}: {error.strerror}") from error


def _tls_reason(error: Exception) -> str:
    return (getattr(error, "reason", None) or str(error)).replace("_", " ").lower()


def _no_password() -> str:
    raise ValueError("the key is encrypted; give a key without a password, readable by the bridge alone")
