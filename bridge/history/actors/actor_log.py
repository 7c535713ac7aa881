"""Writes actors as CloudEvents, a line each, to a file that is durable before anybody is told so.

A full file is renamed to ``actors-<time>.jsonl``, as kube-apiserver does with its own, and the oldest of these go.
Beside it, ``actors.jsonl.position`` says how far the audit log was read. It is replaced behind the lines, so a process
that is killed in between writes some of them again, with the same ids.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from kubedelta_reader.sources.files import FileLines
from kubedelta_reader.sources.lines import end_of_last_line
from kubedelta_reader.sources.parts import timed_parts_of

from bridge.history.actors.audit import Actor
from bridge.plan.private_file import sync_folder, write_private
from bridge.transform.redaction_key import RedactionKey

TYPE = "kubedelta.actor.v1"
_SYSTEM = "system:"
_BEGINNING = b'{"specversion":"1.0","id":'
_LONGEST_LINE = 4 << 20
"""Bytes: texts that clients chose are cut."""
_WRITTEN_AT_ONCE = 1 << 20
"""Bytes."""
_encode = msgspec.json.Encoder().encode


class ActorEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A CloudEvent in the structured form."""

    specversion: str = "1.0"
    id: str
    source: str
    type: str = TYPE
    time: str
    datacontenttype: str = "application/json"
    partitionkey: str
    data: Actor


def encoded(actor: Actor, cluster: str) -> bytes:
    """A line."""
    event = ActorEvent(
        id=actor.id, source=f"/clusters/{cluster}", time=actor.completed, partitionkey=actor.key, data=actor
    )
    return _encode(event) + b"\n"


class _Line(msgspec.Struct):
    type: str
    source: str
    partitionkey: str
    data: msgspec.Raw


def actors_in(path: Path, keys: Collection[str]) -> Mapping[str, Sequence[Actor]]:
    """The actors of the objects with these partition keys, from a file that an ActorLog wrote and from those that it
    renamed: key → actors. Lines that are damaged are passed over. Raises Unavailable, OSError, and ValueError for a
    file of another program or cluster."""
    found: dict[str, list[Actor]] = {key: [] for key in keys}
    sources: set[str] = set()
    reason = ""
    files = FileLines(path, parts=timed_parts_of)
    try:
        files.open()
        for line in files.undamaged():
            try:
                event = _decode_line(line or b"")
                if event.type != TYPE:
                    reason = f"it has {event.type}"
                    continue
                sources.add(event.source)
                if event.partitionkey in found:
                    found[event.partitionkey].append(_decode_actor(event.data))
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                reason = str(error)
    finally:
        files.close()
    if reason and not sources:
        raise ValueError(f"{path} is no file of actors: {reason}")
    clusters = {key.partition("/")[0] for key in keys}
    others = {source.removeprefix("/clusters/") for source in sources}
    if others and clusters and clusters.isdisjoint(others):
        there, wanted = (", ".join(sorted(each)) for each in (others, clusters))
        raise ValueError(f"{path} has actors of the cluster {there}, and none of {wanted}: see --cluster of actors")
    return found


_decode_line = msgspec.json.Decoder(_Line).decode
_decode_actor = msgspec.json.Decoder(Actor).decode


class Naming(StrEnum):
    """What stands for the names of users, groups and addresses."""

    PLAIN = "plain"
    DIGEST = "digest"
    """A digest with the redaction key; Kubernetes' own names (``system:``) stay."""
    NONE = "none"


def names(naming: Naming, key: RedactionKey | None) -> Callable[[str], str]:
    """What takes the place of a name. Raises ValueError for digests without a key."""
    match naming:
        case Naming.PLAIN:
            return str
        case Naming.NONE:
            return lambda _: ""
        case Naming.DIGEST:
            if key is None:
                raise ValueError("digests of names need redaction.key_file")
            digest = key.starting_with(b"actor")
            return lambda name: name if not name or name.startswith(_SYSTEM) else digest(name.encode())


class ActorLog:
    """The file. Belongs to one process and one thread: every method blocks."""

    def __init__(self, path: Path, *, largest: int, keep: int) -> None:
        """``largest``: bytes of a file; ``keep``: files beside the open one. Raises OSError, and ValueError for a file
        of another program, or which another process writes."""
        self._path = path
        self._largest = largest
        self._keep = keep
        self._position = path.with_name(f"{path.name}.position")
        self._file = _append_to(path)
        self.cut = self._cut_torn_line()
        """Bytes of a last line that was never written whole."""

    def position(self) -> bytes:
        """How far the source was read, as ``save`` got it; empty at first. Raises OSError."""
        try:
            return self._position.read_bytes()
        except FileNotFoundError:
            return b""

    def append(self, lines: Iterable[bytes]) -> None:
        """Returns when they are durable. Raises OSError; then none of them counts, and they can be appended again: some
        may come twice."""
        part: list[bytes] = []
        size = 0
        for line in lines:
            part.append(line)
            size += len(line)
            if size >= _WRITTEN_AT_ONCE:
                self._write(b"".join(part))
                part, size = [], 0
        if part:
            self._write(b"".join(part))

    def _write(self, content: bytes) -> None:
        end = os.fstat(self._file).st_size
        if end and end + len(content) > self._largest:
            self._rotate()
            end = 0
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, end)
            raise

    def save(self, position: bytes) -> None:
        """Behind ``append``. Raises OSError."""
        write_private(self._position, position.decode())

    def close(self) -> None:
        os.close(self._file)

    def _rotate(self) -> None:
        stem, suffix = self._path.stem, self._path.suffix
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
        self._path.rename(self._path.with_name(f"{stem}-{time}{suffix}"))
        os.close(self._file)
        self._file = _append_to(self._path)
        parts = timed_parts_of(self._path)
        for each in parts[: max(0, len(parts) - self._keep)]:
            each.path.unlink(missing_ok=True)

    def _cut_torn_line(self) -> int:
        """That of a process which was killed, or of a machine without power, which leaves zeros: its events come again.
        Returns its bytes. Raises ValueError for another program's file."""
        with self._path.open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            end = end_of_last_line(file.fileno(), size)
            file.seek(end)
            torn = file.read(_LONGEST_LINE).rstrip(b"\0")
            file.seek(0)
            beginning = file.read(min(end, len(_BEGINNING)))
            if not (_BEGINNING.startswith(beginning) and _BEGINNING.startswith(torn[: len(_BEGINNING)])):
                raise ValueError(f"{self._path} is no file of actors")
            file.truncate(end)
        return size - end


def _append_to(path: Path) -> int:
    """Raises OSError and ValueError."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        sync_folder(path.parent)
    except BlockingIOError:
        os.close(file)
        raise ValueError(f"another process writes {path}") from None
    return file
