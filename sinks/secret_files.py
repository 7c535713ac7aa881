"""Secrets in files: options hold paths only, so that secrets stay out of the configuration and can be renewed.

One rule for every file of passwords, tokens, keys, certificates and authorities: a file that was replaced or changed is
read again, at the latest for the attempt behind the next refusal.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from sinks.errors import WrongOption

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
        raise WrongOption(option, f"cannot read the secret file {path}: {_why(error)}") from error
    if len(content) > _MAX_BYTES:
        raise WrongOption(option, f"the secret file {path} is larger than {_MAX_BYTES >> 20}MiB")
    if not text.strip():
        raise WrongOption(option, f"the secret file {path} is empty")
    return text


def _why(error: OSError | UnicodeDecodeError) -> str:
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
            raise WrongOption(self._option, f"cannot read the secret file {self._path}: {_why(error)}") from error
        if seen != self._seen:
            self._content = read_secret(self._path, self._option)
            self._seen = seen
        return self._content
