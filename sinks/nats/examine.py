"""Checks the options of a NATS sink before the bridge runs, without a server: the files that they name. It also names
the claims on the stream and the bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import nkeys

from sinks.base import Claim
from sinks.nats.options import NatsOptions
from sinks.receipt import WrongOption, wrong_options
from sinks.secret_files import Step, check_tls_files, read_secret

_CREDENTIALS_PARTS = ("-----BEGIN NATS USER JWT-----", "-----BEGIN USER NKEY SEED-----")
_DEFAULT_PORT = 4222


def examine(options: NatsOptions) -> Sequence[WrongOption]:
    return wrong_options(_steps(options))


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
    if not all(part in text for part in _CREDENTIALS_PARTS):
        raise WrongOption("credentials_file", f"{path} holds no user credentials: a JWT and the seed of its key")


def _seed(path: Path) -> None:
    seed = read_secret(path, "nkey_seed_file").strip()
    try:
        nkeys.from_seed(seed.encode()).wipe()
    except Exception:  # nkeys raises errors of its own, and errors of base64.
        raise WrongOption("nkey_seed_file", f"{path} holds no seed of an NKey") from None


def claims(options: NatsOptions) -> Sequence[Claim]:
    """Claims on stream and bucket for each server: two sinks may name different servers of the same cluster."""
    if options.stream is None:
        return []
    streams = [(options.stream, f"the stream {options.stream}, with sole_writer", options.sole_writer)]
    if options.state is not None:
        streams.append((options.state_stream, f"the bucket {options.state}", True))
    return [
        Claim(f"nats {address.hostname}:{address.port or _DEFAULT_PORT} {stream}", description, exclusive)
        for address in map(urlsplit, options.servers)
        for stream, description, exclusive in streams
    ]
