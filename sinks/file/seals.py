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
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from kubedelta_reader.sources.lines import DAMAGED, blocks_of, whole_lines
from kubedelta_reader.sources.parts import ClosedPart, parts_of
from msgspec.structs import replace

from sinks.file.lines import UNREADABLE
from sinks.file.options import Rotation
from sinks.file.parts import private
from sinks.keys import PrivateKey, PublicKey, private_key
from sinks.reader import CheckedSeals

SUFFIX = ".seals"
_NOTHING = "0" * 64
"""What the first line has for the hash of the line before."""
_SIGNATURE = b',"signature":"'
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
    """The sequence number of the first line, as in the part's name; 0 for a line without one."""
    last: int = 0
    previous: str = ""
    """SHA-256 of the line before, without its newline. Every line has it."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Seal).decode


def _decoded(line: bytes) -> Seal | None:
    with suppress(*UNREADABLE):
        return _decode(line)
    return None


def _seal_of(part: ClosedPart, look: Callable[[], None]) -> Seal:
    """Without the line before. ``look`` is called between two blocks, and may raise. Raises OSError, and DAMAGED for a
    compressed part."""
    digest, size, lines = hashlib.sha256(), 0, 0
    with part.path.open("rb") as file:
        for block in blocks_of(file, part.packed):
            look()
            digest.update(block)
            size += len(block)
            lines += block.count(b"\n")
    first, _, last = part.stem.rpartition(".")[2].partition("-")
    return Seal(
        part=_name(part),
        time=_now(),
        sha256=digest.hexdigest(),
        bytes=size,
        lines=lines,
        first=int(first),
        last=int(last),
    )


def _name(part: ClosedPart) -> str:
    return part.path.name.removesuffix(part.packed)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# ── Sealing ──────────────────────────────────────────────────────────────────


def seal_key(rotation: Rotation) -> PrivateKey | None:
    """None where seals are not signed. Blocks. Raises WrongOption."""
    file = rotation.seal_key_file
    return None if file is None else private_key(file, "rotation.seal_key_file")


class Seals:
    """The seals of one file's parts. Blocks; one thread."""

    def __init__(self, path: Path, key: PrivateKey | None, look: Callable[[], None]) -> None:
        """``path``: of the file whose parts are sealed. ``look`` is called again and again while a part is read, and
        may raise, which ends the work."""
        self._path = path.with_name(path.name + SUFFIX)
        self._reserve = path.with_name(f"{path.name}{SUFFIX}.reserve")
        self._key = key
        self._look = look
        self._known: dict[str, str] | None = None
        """``removed`` in the newest line of each part that is there; None until the file was read. A removal may have
        failed behind its line."""
        self._previous = _NOTHING

    def seal(self, parts: Sequence[ClosedPart]) -> bool:
        """Appends a line for each part that has none, durably. ``parts``: all that are there; others are forgotten.
        False if one could not be read. Raises OSError for the seals themselves."""
        names = {_name(part) for part in parts}
        self._known = {name: removed for name, removed in self._read().items() if name in names}
        unread = [part for part in parts if not self._seal(part)]
        return not unread

    def _seal(self, part: ClosedPart) -> bool:
        if _name(part) not in self._read():
            try:
                seal = _seal_of(part, self._look)
            except (OSError, *DAMAGED):
                return False
            self._append(seal)
        return True

    def removing(self, part: ClosedPart) -> None:
        """Appends the line of a part that is about to be removed, durably, and before that its seal, where a full disk
        has held that up. Raises OSError."""
        if self._seal(part) and not self._read()[_name(part)]:
            self._append(Seal(part=_name(part), time=_now(), removed="retention"))

    def _read(self) -> dict[str, str]:
        """Takes away a line that a crash cut. Raises OSError."""
        if self._known is None:
            known: dict[str, str] = {}
            with open(self._path, "a+b", opener=private) as file:
                file.seek(0)
                end = 0
                for line, length in whole_lines(blocks_of(file, "")):
                    end += length
                    self._previous = _hash(line or b"")
                    if seal := _decoded(line or b""):  # Otherwise somebody changed it; verify says so.
                        known[seal.part] = seal.removed
                file.truncate(end)
            self._known = known
        return self._known

    def _append(self, seal: Seal) -> None:
        known = self._read()
        line = _encode(replace(seal, previous=self._previous))
        if self._key is not None:
            line = line[:-1] + _SIGNATURE + self._key.signature(line[:-1]).encode() + b'"}'
        try:
            with open(self._path, "ab", opener=private) as file:
                file.write(line + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self._known = None  # Part of the line may be there.
            if not self._reserve.exists():
                raise
            self._reserve.unlink()
            self._append(seal)
            return
        self._previous = _hash(line)
        known[seal.part] = seal.removed
        if not self._reserve.exists():
            try:
                with open(self._reserve, "xb", opener=private) as file:
                    os.posix_fallocate(file.fileno(), 0, _RESERVE)
            except OSError:
                self._reserve.unlink(missing_ok=True)


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


# ── Checking ─────────────────────────────────────────────────────────────────


def check_seals(folder: Path, public_keys: Sequence[str]) -> Sequence[CheckedSeals]:
    """Reads every part again. ``public_keys``: those that signed (``whpk_…``), or none where the lines need no
    signature. Blocks. Raises OSError, and ValueError for a text that is no public key."""
    keys = [PublicKey(each) for each in public_keys]
    return [_checked_at_rest(seals, keys) for seals in sorted(folder.glob(f"*{SUFFIX}")) if seals.is_file()]


_MOST_LOOKS = 20
_OUT_OF_ORDER = "does not follow the line before it: one of them was changed, put in or taken out"


def _checked_at_rest(seals: Path, keys: Sequence[PublicKey]) -> CheckedSeals:
    """The sink may seal, compress and remove parts meanwhile: then everything is looked at once more."""
    for _ in range(_MOST_LOOKS):
        size = seals.stat().st_size
        with suppress(FileNotFoundError):
            found = _checked(seals, keys)
            if seals.stat().st_size == size:
                return found
    raise BlockingIOError(errno.EAGAIN, "it grows faster than its parts can be read", str(seals))


def _checked(seals: Path, keys: Sequence[PublicKey]) -> CheckedSeals:
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
            seal = _decoded(line)
            if seal is None:
                faults.append(f"line {number} is no seal")
            elif seal.previous != previous:
                faults.append(f"line {number} {_OUT_OF_ORDER}")
            elif keys and not _is_signed(line, keys):
                faults.append(f"line {number} is not signed by a key that you gave")
            previous = _hash(line[:-1])
            if seal and seal.removed:
                removed.add(seal.part)
            elif seal:
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


def _is_signed(line: bytes, keys: Sequence[PublicKey]) -> bool:
    content, _, signature = line.rpartition(_SIGNATURE)
    return any(key.verifies(content, signature.removesuffix(b'"}\n')) for key in keys)


def _difference(part: ClosedPart, seal: Seal) -> str:
    try:
        found = _seal_of(part, lambda: None)
    except DAMAGED:
        return "cannot be unpacked"
    if found.sha256 == seal.sha256:
        return ""
    now = f"{found.bytes} bytes in {found.lines} lines"
    return f"was changed: it has {now}, and was sealed with {seal.bytes} in {seal.lines}"
