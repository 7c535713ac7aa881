"""TLS towards the API server: whom we trust, and the certificate we show."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bridge.kube.auth import FileState, file_state, reason_of
from bridge.kube.errors import CredentialsError


def cluster_context(authority: bytes | Path | None, whose: str, *, verify: bool = True) -> ssl.SSLContext:
    """For one cluster. ``authority`` is PEM or a file of it; None trusts what the system trusts.

    Raises CredentialsError, which says ``whose`` it is, when it cannot be read.
    """
    name = authority if isinstance(authority, Path) else "what is inline"
    if isinstance(authority, Path):
        try:
            authority.open("rb").close()
        except OSError as error:
            raise CredentialsError(f"{whose}: {authority} cannot be read: {reason_of(error)}") from error
    try:
        if isinstance(authority, bytes):
            # Bundles have comments, in which authorities have their names in their own languages. And where nothing
            # else is in them, "" would trust whom the system trusts.
            context = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") or "nothing")
        else:
            context = ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{whose}: {name} is no certificate authority in PEM: {reason_of(error)}") from error
    # Python 3.13 asks of an authority what those of EKS and of older clusters do not have; Go does not ask.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path, whose: str) -> None:
    """Show this client certificate in every handshake from here on.

    Raises CredentialsError, which says ``whose`` it is, and leaves ``context`` as it was.
    """
    for what, pem in (("client-certificate", certificate), ("client-key", key)):
        if isinstance(pem, Path):
            try:
                pem.open("rb").close()
            except OSError as error:
                raise CredentialsError(f"{whose}: {what}: {pem} cannot be read: {reason_of(error)}") from error
    with as_file(certificate) as certificate_file, as_file(key) as key_file:
        try:
            # A pair that does not fit would leave half of itself behind: it is tried elsewhere first.
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):
                # An encrypted key would make OpenSSL ask at the terminal.
                each.load_cert_chain(certificate_file, key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            raise CredentialsError(
                f"{whose}: the client certificate and its key cannot be used: {reason_of(error)}. "
                "Both must be PEM, belong together, and not be encrypted"
            ) from error


class CertificateFiles:
    """A client certificate in files that somebody else renews: loaded again when one of them changed. While a new
    pair cannot be used (half of it is written), the last one goes on."""

    def __init__(self, context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path, whose: str) -> None:
        self._load = partial(show_certificate, context, certificate, key, whose)
        self._files = [each for each in (certificate, key) if isinstance(each, Path)]
        self._states = self._look()
        self._load()

    @property
    def certificate_changes(self) -> bool:
        return bool(self._files)

    async def token(self) -> None:
        self._load_if_changed()

    async def renew(self, refused: str | None) -> bool:
        return self._load_if_changed()

    def _load_if_changed(self) -> bool:
        states = self._look()
        if states == self._states:
            return False
        try:
            self._load()
        except CredentialsError:
            return False
        self._states = states
        return True

    def _look(self) -> list[FileState | None]:
        return [file_state(each) for each in self._files]


@contextmanager
def as_file(pem: bytes | Path) -> Iterator[Path]:
    """OpenSSL reads certificates from files only. Where the system can, the file is memory alone: a key never
    touches a disk, and a read-only file system is no obstacle."""
    if isinstance(pem, Path):
        yield pem
    elif hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, pem)
            yield Path(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # Readable by us alone.
            file.write(pem)
            file.flush()
            yield Path(file.name)
