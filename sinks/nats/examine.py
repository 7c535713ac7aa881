"""What cannot work in options for NATS, found without asking a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import nkeys

from sinks.base import Claim, WrongOption, mistakes_of, read_secret
from sinks.nats.options import NatsOptions
from sinks.tls import Step, check_tls_files

_PARTS = ("-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----")
_PORT = 4222


def examine(options: NatsOptions) -> Sequence[WrongOption]:
    return mistakes_of(_steps(options))


def _steps(options: NatsOptions) -> Iterator[Step]:
    yield from check_tls_files(options.ca_file, options.cert_file, options.key_file)
    if options.credentials_file is not None:
        yield partial(_credentials, options.credentials_file)
    if options.nkey_seed_file is not None:
        yield partial(_seed, options.nkey_seed_file)
    if options.password_file is not None:
        yield partial(read_secret, options.password_file, "password_file")
    if options.token_file is not None:
        yield partial(read_secret, options.token_file, "token_file")


def _credentials(path: Path) -> None:
    text = read_secret(path, "credentials_file")
    if not all(part in text for part in _PARTS):
        raise WrongOption("credentials_file", f"{path} holds no user credentials: a JWT and the seed of its key")


def _seed(path: Path) -> None:
    seed = read_secret(path, "nkey_seed_file").strip()
    try:
        nkeys.from_seed(seed.encode()).wipe()
    except Exception:  # it has errors of its own, and lets those of base64 through
        raise WrongOption("nkey_seed_file", f"{path} holds no seed of an NKey") from None


def claims(options: NatsOptions) -> Sequence[Claim]:
    """The stream, once for each server that leads to it."""
    addresses = [urlsplit(server) for server in options.servers]
    return [
        Claim(
            f"nats {each.hostname}:{each.port or _PORT} {options.stream}",
            f"the stream {options.stream}, with sole_writer",
            options.sole_writer,
        )
        for each in addresses
    ]
