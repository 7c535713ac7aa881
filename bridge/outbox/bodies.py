"""How bodies rest in the database: as zstd frames, with a dictionary for each kind once enough of it was seen. Hot.

Objects of one kind are much alike: a dictionary halves what a pod takes, and what compressing it costs.

A frame names its dictionary. Dictionaries are kept for ever; there is one for each kind at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import zstandard

from bridge.model.packing import MAX_BODY, pack, unpack

LEVEL = 1
FIRST_NUMBER = 32_768
"""Lower numbers of dictionaries are reserved by the format (RFC 8878). Ours is this and the number of the kind."""
_DICTIONARY_BYTES = 64 * 1024
_SAMPLES = 100
"""Bodies, at least, of which a dictionary is made."""
_SAMPLE_BYTES = 1 << 20
"""And bytes, at least; so few objects that there are not as many take little anyway."""
_ALL_SAMPLE_BYTES = 16 << 20
"""Kept at most, of all kinds, until their dictionaries are made."""


@dataclass(frozen=True, slots=True)
class Dictionary:
    number: int
    kind: int
    content: bytes


class Bodies:
    """``pack`` is called by one thread, the others by any."""

    def __init__(self, dictionaries: Iterable[Dictionary] = ()) -> None:
        self._compressors: dict[int, zstandard.ZstdCompressor] = {}
        self._dictionaries: dict[int, zstandard.ZstdCompressionDict] = {}
        # As in model.packing: a decompressor works for one thread at a time.
        self._decompressors: dict[int, list[zstandard.ZstdDecompressor]] = {}
        self._samples: dict[int, list[bytes]] = {}
        self._sampled: dict[int, int] = {}
        self._taken: set[int] = set()
        for dictionary in dictionaries:
            self.learn(dictionary)

    def pack(self, kind: int, body: bytes) -> bytes:
        """One frame that says how large its content is, and notices damage."""
        compressor = self._compressors.get(kind)
        if compressor is None:
            self._sample(kind, body)
            return pack(body)
        return compressor.compress(body)

    def unpack(self, packed: bytes) -> bytes:
        """What ``pack`` was given. Raises ValueError for anything else, a frame of an unknown dictionary included."""
        try:
            frame = zstandard.get_frame_parameters(packed)
        except zstandard.ZstdError as error:
            raise ValueError(f"not a packed body: {error}") from error
        if not frame.dict_id:
            return unpack(packed)
        if not 0 <= frame.content_size <= MAX_BODY:
            raise ValueError(f"a packed body claims {frame.content_size} bytes; the limit is {MAX_BODY}")
        if frame.dict_id not in self._dictionaries:
            raise ValueError(f"a packed body needs dictionary {frame.dict_id}, which is not there")
        pile = self._decompressors[frame.dict_id]
        try:
            decompressor = pile.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionaries[frame.dict_id])
        try:
            return decompressor.decompress(packed, max_output_size=frame.content_size)
        except zstandard.ZstdError as error:
            raise ValueError(f"a damaged packed body: {error}") from error
        finally:
            pile.append(decompressor)

    # ── Dictionaries ─────────────────────────────────────────────────────────

    def take_samples(self) -> tuple[int, list[bytes]] | None:
        """A kind that has no dictionary and of which enough was seen, with bodies to make one of."""
        for kind, size in list(self._sampled.items()):
            if size >= _SAMPLE_BYTES and len(self._samples[kind]) >= _SAMPLES:
                self._taken.add(kind)
                del self._sampled[kind]
                return kind, self._samples.pop(kind)
        return None

    def learn(self, dictionary: Dictionary) -> None:
        """Pack bodies of that kind with it from now on. Raises ValueError for what is no dictionary, or another one."""
        content = zstandard.ZstdCompressionDict(dictionary.content)
        if content.dict_id() != dictionary.number:
            raise ValueError(f"dictionary {dictionary.number} is damaged: it says that it is {content.dict_id()}")
        try:
            content.precompute_compress(level=LEVEL)
        except zstandard.ZstdError as error:
            raise ValueError(f"dictionary {dictionary.number} is damaged: {error}") from error
        self._dictionaries[dictionary.number] = content
        self._decompressors[dictionary.number] = []
        self._compressors[dictionary.kind] = zstandard.ZstdCompressor(
            level=LEVEL, dict_data=content, write_content_size=True, write_checksum=True
        )

    def _sample(self, kind: int, body: bytes) -> None:
        # Samples may be taken between any two lines of this; then what is kept here is one body too many.
        samples, size = self._samples.setdefault(kind, []), self._sampled.get(kind, 0)
        enough = size >= _SAMPLE_BYTES and len(samples) >= _SAMPLES
        if enough or kind in self._taken or sum(self._sampled.values()) >= _ALL_SAMPLE_BYTES:
            return
        samples.append(body)
        self._sampled[kind] = size + len(body)


def make_dictionary(samples: list[bytes], number: int) -> bytes | None:
    """The content of a dictionary; None where these have nothing in common. Takes a tenth of a second."""
    try:
        return zstandard.train_dictionary(_DICTIONARY_BYTES, [*samples], dict_id=number).as_bytes()
    except zstandard.ZstdError:
        return None
