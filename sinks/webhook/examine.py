"""Checks options for a webhook without the endpoint: the files that they name, and addresses that need no resolver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from sinks.keys import keys_in
from sinks.receipt import WrongOption, wrong_options
from sinks.secret_files import Step, check_tls_files, read_secret
from sinks.webhook.authorization import authorization_of, trusted_authorities
from sinks.webhook.client import NetworkPolicy
from sinks.webhook.options import HEADER_VALUE, WebhookOptions


def examine(options: WebhookOptions) -> Sequence[WrongOption]:
    return wrong_options(_steps(options))


def header_value(value: str, name: str, path: Path) -> str:
    """Returns the value. Raises WrongOption when it cannot be the value of a header."""
    if not re.fullmatch(HEADER_VALUE.pattern, value):
        raise WrongOption(f"header_files.{name}", f"{path} is not one line of printable ASCII")
    return value


def _steps(options: WebhookOptions) -> Iterator[Step]:
    yield from check_tls_files(options.ca_file, options.cert_file, options.key_file)
    for name, path in options.header_files.items():
        yield partial(_header, name, path)
    if options.secret_file is not None:
        yield partial(_keys, options.secret_file)
    if (authorization := authorization_of(options)) is not None:
        yield authorization
    networks = NetworkPolicy(options.allow_networks)
    yield partial(_address, "url", options.url, networks)
    if (oauth2 := options.oauth2) is not None:
        yield partial(read_secret, oauth2.client_secret_file, "oauth2.client_secret_file")
        yield partial(_address, "oauth2.token_url", oauth2.token_url, networks)
        yield trusted_authorities(oauth2, options).context


def _header(name: str, path: Path) -> None:
    header_value(read_secret(path, f"header_files.{name}"), name, path)


def _keys(path: Path) -> None:
    keys_in(read_secret(path, "secret_file"), path)


def _address(option: str, url: str, policy: NetworkPolicy) -> None:
    """Names are resolved, and their addresses checked, when a connection is made."""
    try:
        reason = policy.why_refused(urlsplit(url).hostname or "")
    except ValueError:
        return
    if reason:
        raise WrongOption(option, reason)
