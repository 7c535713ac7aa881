"""The header Authorization from files: HTTP Basic (RFC 7617) and Bearer (RFC 6750)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from sinks.errors import WrongOption
from sinks.secret_files import SecretFile
from sinks.webhook.options import WebhookOptions

_TOKEN = re.compile(r"[\x21-\x7e]+")


class FileAuthorization(Protocol):
    """Makes the header of a file that may change while the bridge runs."""

    def read(self) -> str:
        """The value of Authorization, from the present content. Raises WrongOption, without the content."""
        ...

    @property
    def secrets(self) -> Iterator[str]:
        """Texts that must not be logged, as of the last ``read``."""
        ...


class BasicAuthorization:
    def __init__(self, username: str, password_file: Path) -> None:
        self._username = username
        self._path = password_file
        self._file = SecretFile(password_file, "password_file")
        self._password = ""

    def read(self) -> str:
        password = self._file.read()
        if not password.isprintable():
            raise WrongOption("password_file", f"{self._path} is not one line of printable text")
        self._password = password
        return f"Basic {b64encode(f'{self._username}:{password}'.encode()).decode()}"

    @property
    def secrets(self) -> Iterator[str]:
        yield self._password


class BearerAuthorization:
    def __init__(self, token_file: Path) -> None:
        self._path = token_file
        self._file = SecretFile(token_file, "bearer_token_file")
        self._token = ""

    def read(self) -> str:
        token = self._file.read().strip()
        if not is_token(token):
            raise WrongOption("bearer_token_file", f"{self._path} holds no token: one word of printable ASCII")
        self._token = token
        return f"Bearer {token}"

    @property
    def secrets(self) -> Iterator[str]:
        yield self._token


def is_token(text: str) -> bool:
    """Whether the text can stand behind ``Bearer``."""
    return _TOKEN.fullmatch(text) is not None


def authorization_of(options: WebhookOptions) -> FileAuthorization | None:
    """None without an option for it."""
    if options.username is not None and options.password_file is not None:
        return BasicAuthorization(options.username, options.password_file)
    if options.bearer_token_file is not None:
        return BearerAuthorization(options.bearer_token_file)
    return None
