"""Makes certificates that no authority signs, for servers whose clients are told which one to expect."""

from __future__ import annotations

import datetime
import ssl
import tempfile
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = 3650


def self_signed(name: str, folder: Path | None, addresses: Sequence[str] = ()) -> tuple[ssl.SSLContext, bytes]:
    """The context of a server with a new key and certificate, and the certificate in PEM. ``folder``: a private one, in
    which both are for a moment, since OpenSSL reads files alone; None for the folder of temporary files.
    ``addresses``: by which clients find the server. Blocks for some milliseconds. Raises OSError."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )
    if addresses:
        alternatives = x509.SubjectAlternativeName([x509.IPAddress(ip_address(each)) for each in addresses])
        builder = builder.add_extension(alternatives, critical=False)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with tempfile.NamedTemporaryFile(dir=folder) as file:  # Mode 0600.
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        file.write(certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context, certificate
