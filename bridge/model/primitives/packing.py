"""Bodies at rest are compressed: zstandard level 1 keeps a pod in about a fifth of its size, for about 10 µs."""

from __future__ import annotations

import zstandard

MAX_BODY = 64 * 1024 * 1024
"""Bytes. etcd takes objects of 1.5 MiB; whatever claims to unpack to more than this is damaged or hostile."""

# A (de)compressor works for one thread at a time and is dear to make. Whoever needs one takes it from the pile, which
# is atomic, and puts it back: there are never more of them than threads that packed at once.
_compressors: list[zstandard.ZstdCompressor] = []
_decompressors: list[zstandard.ZstdDecompressor] = []


def pack(body: bytes) -> bytes:
    """One zstandard frame that says how large its content is, and notices damage."""
    try:
        compressor = _compressors.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(level=1, write_content_size=True, write_checksum=True)
    try:
        return compressor.compress(body)
    finally:
        _compressors.append(compressor)


def unpack(packed: bytes) -> bytes:
    """What ``pack`` was given. Raises ValueError where this is not such a frame, or one beyond ``MAX_BODY``."""
    try:
        size = zstandard.frame_content_size(packed)
    except zstandard.ZstdError as error:
        raise ValueError(f"not a packed body: {error}") from error
    if not 0 <= size <= MAX_BODY:
        raise ValueError(f"a packed body claims {size} bytes; the limit is {MAX_BODY}")
    try:
        decompressor = _decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor()
    try:
        return decompressor.decompress(packed, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ValueError(f"a damaged packed body: {error}") from error
    finally:
        _decompressors.append(decompressor)
