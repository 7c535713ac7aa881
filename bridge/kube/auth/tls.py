"""Makes the TLS context for an API server: which authority it trusts, and which client certificate it shows."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bridge.kube.auth.credentials import CredentialsError, reason_of


def cluster_context(authority: bytes | Path | None, whose: str, *, verify: bool = True) -> ssl.SSLContext:
    """The TLS context of a cluster. ``authority`` is PEM, or a file of it; None trusts the system's authorities.

    Raises CredentialsError for an unreadable authority; ``whose`` names the setting in it.
    """
    name = authority if isinstance(authority, Path) else "the inline data"
    if isinstance(authority, Path):
        try:
            authority.open("rb").close()
        except OSError as error:
            raise CredentialsError(f"{whose}: {authority} cannot be read: {reason_of(error)}") from error
    try:
        if isinstance(authority, bytes):
            # Bundles have comments with the authorities' names, in any alphabet. An empty cadata would trust the
            # system's authorities, so a bundle without any ASCII must become text that is refused.
            context = ssl.create_default_context(cadata=authority.decode("ascii", "ignore") or "nothing")
        else:
            context = ssl.create_default_context(cafile=authority)
    except (OSError, ValueError) as error:
        raise CredentialsError(f"{whose}: {name} is no certificate authority in PEM: {reason_of(error)}") from error
    # Python 3.13 demands extensions that the authorities of EKS and of older clusters lack; Go does not demand them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show_certificate(context: ssl.SSLContext, certificate: bytes | Path, key: bytes | Path, whose: str) -> None:
    """Uses this client certificate in every later handshake.

    Raises CredentialsError for an unusable certificate, and then leaves ``context`` unchanged; ``whose`` names the
    setting.
    """
    for setting, pem in (("client-certificate", certificate), ("client-key", key)):
        if isinstance(pem, Path):
            try:
                pem.open("rb").close()
            except OSError as error:
                raise CredentialsError(f"{whose}: {setting}: {pem} cannot be read: {reason_of(error)}") from error
    with as_file(certificate) as certificate_file, as_file(key) as key_file:
        try:
            # load_cert_chain keeps the certificate even if the key does not fit: a spare context tries the pair first.
            for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), context):
                # An encrypted key would make OpenSSL ask at the terminal.
                each.load_cert_chain(certificate_file, key_file, password=lambda: "")
        except (OSError, ValueError) as error:
            raise CredentialsError(
                f"{whose}: the client certificate and its key cannot be used: {reason_of(error)}. "
                "Both must be PEM, belong together, and not be encrypted"
            ) from error


@contextmanager
def as_file(pem: bytes | Path) -> Iterator[Path]:
    """A file with the PEM, because OpenSSL reads certificates only from files. On Linux the file is in memory (memfd):
    a key never touches a disk, and a read-only file system suffices."""
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
