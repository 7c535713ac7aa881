"""Finds whole lines in plain and compressed files, without their newlines."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import BinaryIO

import zstandard

MAX_LINE = 64 * 1024 * 1024
"""Bytes. A longer line is skipped: it cannot be a delta, because etcd takes objects of 1.5 MiB."""
_BLOCK = 64 * 1024
_PACKED_BLOCK = 1024
"""Bytes. Unpacked they are no more than a line may be: zstd makes at most 128 KiB of four bytes."""
_MAX_INFLATION = 1000
"""Times its size that a part may have unpacked, as with gzip by its nature. The ids of records alone differ by more."""
_LEAST_BOUND = 1 << 20
"""Bytes."""


class InflatesTooMuch(Exception):
    """A compressed file is no part of a sink: a small one would keep its reader busy for hours."""


DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError, InflatesTooMuch)
"""Errors of compressed files."""


def whole_lines(blocks: Iterable[bytes]) -> Iterator[tuple[bytes | None, int]]:
    """Each line that ends with a newline, with its length in the file; None in place of a line that is too long."""
    pieces: list[bytes] = []
    length = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        if length <= MAX_LINE:
            pieces.append(first)
        length += len(first)
        if not others:
            continue
        yield (b"".join(pieces) if length <= MAX_LINE else None), length + 1
        for line in others[:-1]:
            yield (line if len(line) <= MAX_LINE else None), len(line) + 1
        pieces, length = [others[-1]], len(others[-1])


def skipped(blocks: Iterable[bytes], count: int) -> Iterator[bytes]:
    """Without the first ``count`` bytes."""
    for block in blocks:
        yield block[count:]
        count = max(0, count - len(block))


def blocks_between(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The content, unbuffered: what is read again may have changed meanwhile. Raises OSError."""
    while start < end and (block := os.pread(fd, min(_BLOCK, end - start), start)):
        start += len(block)
        yield block


def blocks_of(file: BinaryIO, packed: str) -> Iterator[bytes]:
    """The content of a closed part, unpacked. Raises OSError, and DAMAGED for a compressed part."""
    match packed:
        case ".zst":
            yield from _bounded(file, _unpacked(file))
        case ".gz":
            with closing(gzip.GzipFile(fileobj=file)) as unpacked:
                yield from iter(lambda: unpacked.read(_BLOCK), b"")
        case _:
            yield from iter(lambda: file.read(_BLOCK), b"")


def _bounded(file: BinaryIO, unpacked: Iterator[bytes]) -> Iterator[bytes]:
    inflated = 0
    for block in unpacked:
        inflated += len(block)
        if inflated > _LEAST_BOUND + _MAX_INFLATION * file.tell():
            raise InflatesTooMuch(f"unpacked it has more than {_MAX_INFLATION} times its size")
        yield block


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    # The library refuses frames that need more than 128 MiB. A stream_reader would take a torn frame for a whole one.
    unpack = zstandard.ZstdDecompressor().decompressobj
    frame = None
    while block := file.read(_PACKED_BLOCK):
        while block:
            frame = frame or unpack()
            yield frame.decompress(block)
            block, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise zstandard.ZstdError("the file ends within a frame")


def end_of_last_line(fd: int, end: int) -> int:
    """The offset behind the last newline before ``end``; 0 without a newline. Raises OSError."""
    while end > 0:
        start = max(0, end - _BLOCK)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def first_line(fd: int) -> bytes:
    """Empty in a file without a whole line, and in place of a line that is too long. Raises OSError."""
    line, _ = next(whole_lines(blocks_between(fd, 0, os.fstat(fd).st_size)), (None, 0))
    return line or b""
