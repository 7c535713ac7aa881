"""Seals of closed parts: a line for each in ``<file>.seals``, so that a part that is changed, cut or taken away later
is found (``kubedelta verify --seals``). AWS CloudTrail's digest files have this shape.

A line has the part's name, the SHA-256 of its lines (of the content, so compression changes nothing), their number and
the first and last sequence number, and the SHA-256 of the line before: whoever changes a line has to write all later
ones anew. With ``rotation.seal_key_file`` each line ends with an Ed25519 signature of what stands before it, and so
nobody without the key can. A part that retention removes gets a line of its own, before it goes.

It proves what happened behind the seal, and nothing of the time before: who can write into the folder while the sink
writes can change a part that is open. Nor does it find that lines at the end of the chain are missing: keep the last
line's hash, which ``verify`` prints, somewhere else.

How it fails: a line that a crash cut is taken away at the next start, and its part is sealed then. A part that cannot
be read waits for the next round. A full disk holds up no delivery, and no removal either, since that makes room: a
small file beside the seals, ``<file>.seals.reserve``, gives its room to the lines.
"""

from __future__ import annotations

import errno
import hashlib
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from kubedelta_reader.sources.lines import DAMAGED, blocks_of, whole_lines
from kubedelta_reader.sources.parts import ClosedPart, parts_of
from msgspec.structs import replace

from sinks.file.lines import sequence_in
from sinks.file.options import Rotation
from sinks.file.parts import private
from sinks.keys import PrivateKey, private_key_in, public_key
from sinks.reader import CheckedSeals
from sinks.secret_files import read_secret

if TYPE_CHECKING:
    from nacl.signing import VerifyKey

SUFFIX = ".seals"
_NOTHING = "0" * 64
"""What the first line has for the hash of the line before."""
_SIGNATURE = ',"signature":"'
_LONGEST = 4096
"""Bytes of a line."""
_RESERVE = 64 * 1024
"""Bytes: lines of a hundred parts."""


class Seal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line, without its signature."""

    part: str
    """Its name, without ``.zst``."""
    time: str
    """When it was sealed, or removed: RFC 3339."""
    removed: Literal["", "retention"] = ""
    """The part is removed behind this line, by the options."""
    sha256: str = ""
    """Of its lines, each with the newline at its end."""
    bytes: int = 0
    lines: int = 0
    first: int = 0
    """The sequence number of the first line; 0 for a line without one."""
    last: int = 0
    previous: str = ""
    """SHA-256 of the line before, without its newline. Every line has it."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Seal).decode


def _go_on() -> None:
    """Nobody ends the reading of a part."""


def _seal_of(part: ClosedPart, look: Callable[[], None] = _go_on) -> Seal:
    """Without the line before. ``look`` is called between two blocks, and may raise. Raises OSError, and DAMAGED for a
    compressed part."""
    digest, size, lines, first = hashlib.sha256(), 0, 0, 0

    def blocks() -> Iterator[bytes]:
        nonlocal size
        with part.path.open("rb") as file:
            for block in blocks_of(file, part.packed):
                look()
                digest.update(block)
                size += len(block)
                yield block

    newest = b""
    for line, _ in whole_lines(blocks()):
        lines += 1
        newest = line or b""
        if lines == 1:
            first = sequence_in(newest)
    return Seal(
        part=_name(part),
        time=_now(),
        sha256=digest.hexdigest(),
        bytes=size,
        lines=lines,
        first=first,
        last=sequence_in(newest),
    )


def _name(part: ClosedPart) -> str:
    return part.path.name.removesuffix(part.packed)


# ── Sealing ──────────────────────────────────────────────────────────────────

_KEY = "rotation.seal_key_file"


def seal_key(rotation: Rotation) -> PrivateKey | None:
    """None where seals are not signed. Blocks. Raises WrongOption."""
    if rotation.seal_key_file is None:
        return None
    return private_key_in(read_secret(rotation.seal_key_file, _KEY), rotation.seal_key_file, _KEY)


class Seals:
    """The seals of one file's parts. Blocks; one thread."""

    def __init__(self, path: Path, key: PrivateKey | None) -> None:
        """``path``: of the file whose parts are sealed."""
        self._path = path.with_name(path.name + SUFFIX)
        self._reserve = path.with_name(f"{path.name}{SUFFIX}.reserve")
        self._key = key
        self._sealed: set[str] | None = None
        """Parts with a seal that are there; None until the file was read."""
        self._leaving: set[str] = set()
        """Parts that are there, with the line of a removal, which may have failed."""
        self._previous = _NOTHING

    def seal(self, parts: Sequence[ClosedPart], look: Callable[[], None] = _go_on) -> bool:
        """Appends a line for each part that has none, durably. ``parts``: all that are there; others are forgotten.
        False if one could not be read. ``look`` is called again and again, and may raise, which ends the work. Raises
        OSError for the seals themselves."""
        names = {_name(part) for part in parts}
        self._leaving &= names
        self._read().intersection_update(names)
        succeeded = True
        for part in parts:
            succeeded &= self._seal(part, look)
        return succeeded

    def _seal(self, part: ClosedPart, look: Callable[[], None]) -> bool:
        if _name(part) in self._read() or _name(part) in self._leaving:
            return True
        try:
            seal = _seal_of(part, look)
        except (OSError, *DAMAGED):
            return False
        self._append(seal)
        self._read().add(_name(part))
        return True

    def removing(self, part: ClosedPart, look: Callable[[], None] = _go_on) -> None:
        """Appends the line of a part that is about to be removed, durably, and before that its seal, where a full disk
        has held that up. ``look``: see ``seal``. Raises OSError."""
        self._seal(part, look)
        if _name(part) in self._read():
            self._append(Seal(part=_name(part), time=_now(), removed="retention"))
            self._read().discard(_name(part))
            self._leaving.add(_name(part))

    def _read(self) -> set[str]:
        """Takes away a line that a crash cut. Raises OSError."""
        if self._sealed is None:
            sealed: set[str] = set()
            with open(self._path, "a+b", opener=private) as file:
                file.seek(0)
                end = 0
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    end += len(line)
                    self._previous = hashlib.sha256(line[:-1]).hexdigest()
                    try:
                        found = _decode(line)
                    except (msgspec.MsgspecError, UnicodeDecodeError):
                        continue  # Somebody changed it; verify says so.
                    (sealed.discard if found.removed else sealed.add)(found.part)
                file.truncate(end)
            self._sealed = sealed
        return self._sealed

    def _append(self, seal: Seal) -> None:
        line = _encode(replace(seal, previous=self._previous))
        if self._key is not None:
            signature = b64encode(self._key.signature(line[:-1]))
            line = line[:-1] + _SIGNATURE.encode() + signature + b'"}'
        try:
            self._write(line)
        except OSError:
            if not self._reserve.exists():
                raise
            self._reserve.unlink()
            self._read()
            self._write(line)
        self._previous = hashlib.sha256(line).hexdigest()
        if not self._reserve.exists():
            try:
                with open(self._reserve, "xb", opener=private) as file:
                    os.posix_fallocate(file.fileno(), 0, _RESERVE)
            except OSError:
                self._reserve.unlink(missing_ok=True)

    def _write(self, line: bytes) -> None:
        try:
            with open(self._path, "ab", opener=private) as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._sealed = None  # Part of the line may be there.
            raise


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# ── Checking ─────────────────────────────────────────────────────────────────


def check_seals(folder: Path, public_keys: Sequence[str]) -> Sequence[CheckedSeals]:
    """Reads every part again. ``public_keys``: those that signed (``whpk_…``), or none where the lines need no
    signature. Blocks. Raises OSError, and ValueError for a text that is no public key."""
    keys = [public_key(each) for each in public_keys]
    return [_checked_at_rest(seals, keys) for seals in sorted(folder.glob(f"*{SUFFIX}")) if seals.is_file()]


_MOST_LOOKS = 20


def _checked_at_rest(seals: Path, keys: Sequence[VerifyKey]) -> CheckedSeals:
    """The sink may seal, compress and remove parts meanwhile: then everything is looked at once more."""
    for _ in range(_MOST_LOOKS):
        size = seals.stat().st_size
        with suppress(FileNotFoundError):
            found = _checked(seals, keys)
            if seals.stat().st_size == size:
                return found
    raise BlockingIOError(errno.EAGAIN, "it grows faster than its parts can be read", str(seals))


def _checked(seals: Path, keys: Sequence[VerifyKey]) -> CheckedSeals:
    faults: list[str] = []
    present = {_name(part): part for part in parts_of(seals.with_name(seals.name.removesuffix(SUFFIX))) if part.is_own}
    known: dict[str, Seal] = {}
    removed: set[str] = set()
    previous = _NOTHING
    with seals.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
            if not line.endswith(b"\n"):
                faults.append(f"line {number} is cut, or longer than {_LONGEST} bytes")
                break
            fault, seal = _read_line(line[:-1], previous, keys)
            if fault:
                faults.append(f"line {number} {fault}")
            previous = hashlib.sha256(line[:-1]).hexdigest()
            if seal is None:
                continue
            if seal.removed:
                removed.add(seal.part)
            else:
                known[seal.part] = seal
    sealed = 0
    for name, seal in known.items():
        part = present.pop(name, None)
        if part is None:
            if name not in removed:
                faults.append(f"{name} is missing, and retention did not remove it")
        elif fault := _difference(part, seal):
            faults.append(f"{name} {fault}")
        else:
            sealed += 1
    # Parts are sealed in the order in which they were closed.
    newest = max(known, default="")
    faults += [f"{name} has no seal, and a later part has one" for name in sorted(present) if name < newest]
    return CheckedSeals(seals, faults, sealed, len(removed), sorted(present), previous)


def _read_line(line: bytes, previous: str, keys: Sequence[VerifyKey]) -> tuple[str, Seal | None]:
    """What is wrong with a line, and what it says."""
    try:
        seal = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return "is no seal", None
    if seal.previous != previous:
        return "does not follow the line before it: one of them was changed, put in or taken out", seal
    if keys and not _is_signed(line, keys):
        return "is not signed by a key that you gave", seal
    return "", seal


def _is_signed(line: bytes, keys: Sequence[VerifyKey]) -> bool:
    from nacl.exceptions import BadSignatureError

    content, mark, rest = line.rpartition(_SIGNATURE.encode())
    if not mark or not rest.endswith(b'"}'):
        return False
    for key in keys:
        try:
            key.verify(content, b64decode(rest[:-2], validate=True))
        except (BadSignatureError, ValueError):
            continue
        return True
    return False


def _difference(part: ClosedPart, seal: Seal) -> str:
    try:
        found = _seal_of(part)
    except DAMAGED:
        return "cannot be unpacked"
    if found.sha256 == seal.sha256:
        return ""
    now = f"{found.bytes} bytes in {found.lines} lines"
    return f"was changed: it has {now}, and was sealed with {seal.bytes} in {seal.lines}"
