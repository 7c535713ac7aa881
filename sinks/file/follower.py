"""Follows the records of a file and of its closed parts, for ``kubedelta tail``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from bridge.model.versions.followed_record import FollowedRecord
from bridge.model.versions.record_forms import record_in
from bridge.model.versions.stored_version import CannotReadBack
from sinks.errors import SinkUnavailable
from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.file.reading.follow import Follower
from sinks.file.reading.lines import DAMAGED
from sinks.file.rotation.parts import parts_of

_TOO_LONG = FollowedRecord(b"", foreign=True)


class FileFollower:
    """See RecordFollower. Goes on through rotations, those of logrotate too."""

    def __init__(self, _name: str, options: FileOptions, *, cluster: str) -> None:
        if options.path == STANDARD_OUTPUT:
            raise CannotReadBack("standard output cannot be read again")
        self._path = options.path
        self._follower = Follower(options.path)
        self._since = ""

    def open(self) -> bool:
        if self._path.parent.is_dir() and not self._path.exists() and not parts_of(self._path):
            return False
        self._follower.open()
        return True

    def last(self, count: int, accepts: Callable[[FollowedRecord], bool]) -> Sequence[FollowedRecord]:
        with self._readable():
            return [_record(line) for line in self._follower.last(count, lambda line: accepts(_record(line)))]

    def begin(self, since: datetime | None) -> None:
        """A record without a time counts as later."""
        if since is not None:
            moment = since.astimezone(UTC).isoformat(timespec="microseconds")
            self._since = f"{moment.removesuffix('+00:00')}Z"

    def news(self) -> Iterator[FollowedRecord]:
        with self._readable():
            for record in map(_record, self._lines()):
                if self._since and record.time and record.time < self._since:
                    continue
                self._since = ""  # A record behind may repeat an older time.
                yield record

    def close(self) -> None:
        self._follower.close()

    def _lines(self) -> Iterator[bytes | None]:
        """None also stands for the rest of a part that is damaged: the parts behind it are read all the same."""
        while True:
            try:
                yield from self._follower.lines()
            except DAMAGED:
                self._follower.leave_part()
                yield None
            else:
                return

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SinkUnavailable(f"cannot read {self._path}: {error}") from error


def _record(line: bytes | None) -> FollowedRecord:
    return _TOO_LONG if line is None else record_in(line)
