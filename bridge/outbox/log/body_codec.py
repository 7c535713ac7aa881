"""Packs bodies: as zstd frames, with a dictionary for each kind once enough samples were seen. This is on the hot path.

Objects of one kind resemble each other: a dictionary halves both the size of a pod and the time to compress it.
A frame names its dictionary. A kind has one dictionary at most, which stays in the database for ever; a body uses it
only after it is durable, since a body whose dictionary is lost cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import apsw
import zstandard

from bridge.model.formats.content import parted
from bridge.model.primitives.packing import MAX_BODY, pack, unpack
from bridge.outbox.encryption import Cipher, Place, is_sealed, opened, sealed

LEVEL = 1
FIRST_NUMBER = 32_768
"""The number of a dictionary is this plus the number of its kind. The format reserves lower numbers (RFC 8878)."""
_DICTIONARY_BYTES = 64 * 1024
_SAMPLES = 100
"""Bodies needed to train a dictionary."""
_SAMPLE_BYTES = 1 << 20
"""Bytes needed to train a dictionary; a kind with fewer takes little space anyway."""
_ALL_SAMPLE_BYTES = 16 << 20
"""Bound of the samples in memory, of all kinds."""


class BodyCodec:
    """Thread-safe, with two restrictions: only one thread calls ``pack``, and only the event loop ``sample`` and
    ``take_samples``."""

    def __init__(self, dictionaries: Iterable[Dictionary] = (), cipher: Cipher | None = None) -> None:
        self.cipher = cipher
        """Encrypts frames where it is set; ``pack`` and ``compress`` do not."""
        self.compress: dict[int, Callable[[bytes], bytes]] = {}
        """By kind, for kinds that have a dictionary. For the writer's thread; ``pack`` is for all kinds."""
        self._dictionaries: dict[int, zstandard.ZstdCompressionDict] = {}
        # A decompressor serves a single thread at a time, so each call takes one from this pool (as model.packing).
        self._decompressors: dict[int, list[zstandard.ZstdDecompressor]] = {}
        self._samples: dict[int, list[bytes]] = {}
        self._sampled: dict[int, int] = {}
        """Bytes of the samples."""
        self._taken: set[int] = set()
        for dictionary in dictionaries:
            self.learn(dictionary)

    def pack(self, kind: int, body: bytes) -> bytes:
        """The body as one zstd frame with content size and checksum, with the dictionary if the kind has one by now."""
        return self.compress.get(kind, pack)(body)

    def unpack(self, packed: bytes, place: Callable[[int], Place], row: int) -> bytes:
        """The body of a frame, without managers behind it. Raises as ``unpack_whole`` does."""
        return parted(self.unpack_whole(packed, place, row))[0]

    def unpack_whole(self, packed: bytes, place: Callable[[int], Place], row: int) -> bytes:
        """The text of a frame, which may be encrypted for this place: a body, and perhaps managers behind it
        (``formats.content``). Raises ValueError for a damaged frame, an unknown dictionary, or a size beyond MAX_BODY,
        and KeyMissing."""
        try:
            frame = zstandard.get_frame_parameters(packed)
        except zstandard.ZstdError as error:
            if is_sealed(packed):
                return self.unpack_whole(opened(self.cipher, place(row), packed), place, row)
            raise ValueError(f"not a packed body: {error}") from error
        if not frame.dict_id:
            return unpack(packed)
        if not 0 <= frame.content_size <= MAX_BODY:
            raise ValueError(f"a packed body claims {frame.content_size} bytes; the limit is {MAX_BODY}")
        if frame.dict_id not in self._dictionaries:
            raise ValueError(f"a packed body needs dictionary {frame.dict_id}, which is missing")
        pool = self._decompressors[frame.dict_id]
        try:
            decompressor = pool.pop()
        except IndexError:
            decompressor = zstandard.ZstdDecompressor(dict_data=self._dictionaries[frame.dict_id])
        try:
            return decompressor.decompress(packed, max_output_size=frame.content_size)
        except zstandard.ZstdError as error:
            raise ValueError(f"a damaged packed body: {error}") from error
        finally:
            pool.append(decompressor)

    # ── Dictionaries ─────────────────────────────────────────────────────────

    def sample(self, kind: int, bodies: Iterable[bytes]) -> bool:
        """Collects samples of a kind without a dictionary. Returns True while it has enough that were not taken."""
        if kind in self._taken:
            return False
        samples, size = self._samples.setdefault(kind, []), self._sampled.get(kind, 0)
        room = _ALL_SAMPLE_BYTES - sum(self._sampled.values())
        for body in bodies:
            if room <= 0 or _are_enough(samples, size):
                break
            samples.append(body)
            size += len(body)
            room -= len(body)
        self._sampled[kind] = size
        return _are_enough(samples, size)

    def take_samples(self) -> tuple[int, list[bytes]] | None:
        """A kind without a dictionary that has enough samples, with the samples; None if there is no such kind."""
        for kind, samples in self._samples.items():
            if _are_enough(samples, self._sampled[kind]):
                self._taken.add(kind)
                del self._sampled[kind]
                return kind, self._samples.pop(kind)
        return None

    def learn(self, dictionary: Dictionary) -> None:
        """Uses the dictionary for its kind from now on. Raises ValueError for damaged content."""
        content = zstandard.ZstdCompressionDict(dictionary.content)
        if content.dict_id() != dictionary.number:
            raise ValueError(
                f"dictionary {dictionary.number} is damaged: its content has the number {content.dict_id()}"
            )
        try:
            content.precompute_compress(level=LEVEL)
        except zstandard.ZstdError as error:
            raise ValueError(f"dictionary {dictionary.number} is damaged: {error}") from error
        self._dictionaries[dictionary.number] = content
        self._decompressors[dictionary.number] = []
        compressor = zstandard.ZstdCompressor(
            level=LEVEL, dict_data=content, write_content_size=True, write_checksum=True
        )
        self.compress[dictionary.kind] = compressor.compress


def _are_enough(samples: Sequence[bytes], size: int) -> bool:
    return size >= _SAMPLE_BYTES and len(samples) >= _SAMPLES


# ── Dictionaries ─────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A trained dictionary and the kind that uses it."""

    number: int
    kind: int
    content: bytes


def make_dictionary(kind: int, samples: Sequence[bytes]) -> Dictionary | None:
    """The dictionary of a kind; None if the samples have too little in common. Takes about 0.1 s."""
    number = FIRST_NUMBER + kind
    try:
        content = zstandard.train_dictionary(_DICTIONARY_BYTES, [*samples], dict_id=number).as_bytes()
    except zstandard.ZstdError:
        return None
    return Dictionary(number, kind, content)


def load_dictionaries(database: apsw.Connection, cipher: Cipher | None) -> list[Dictionary]:
    """All dictionaries of the database. Raises ValueError for damaged content, and KeyMissing."""
    return [
        Dictionary(number, kind, opened(cipher, Place.dictionary(number), content))
        for number, kind, content in database.execute("SELECT number, kind, content FROM dictionaries")
    ]


def add_dictionary(database: apsw.Connection, dictionary: Dictionary, cipher: Cipher | None) -> None:
    """Saves a new dictionary. Its number is unique to its kind."""
    database.execute(
        "INSERT INTO dictionaries (number, kind, content) VALUES (?,?,?)",
        (dictionary.number, dictionary.kind, sealed(cipher, Place.dictionary(dictionary.number), dictionary.content)),
    )
