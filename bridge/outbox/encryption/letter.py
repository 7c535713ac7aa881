"""The content of a dead letter, encrypted or not."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridge.outbox.encryption.cipher import Cipher, Place, is_sealed, opened
from bridge.outbox.errors import Damaged


class Letter(NamedTuple):
    """The columns of a dead letter that its content is bound to, and its content."""

    sink: str
    sequence: int
    record_id: str
    record: bytes
    reason: str
    answer: str
    sealed: bytes | None = None
    """Reason and answer, encrypted; None where they are plain."""

    def content(self, cipher: Cipher | None) -> bytes:
        """The encoded record. Raises Damaged and KeyMissing."""
        try:
            return opened(cipher, self._place(b"record"), self.record)
        except ValueError as error:
            raise Damaged(f"a dead letter cannot be read: {error}") from error

    def texts(self, cipher: Cipher | None) -> tuple[str, str]:
        """The reason, and the destination's answer. Raises Damaged and KeyMissing."""
        if self.sealed is None:
            return self.reason, self.answer
        try:
            return msgspec.json.decode(opened(cipher, self._place(b"answer"), self.sealed), type=tuple[str, str])
        except (ValueError, msgspec.MsgspecError) as error:
            raise Damaged(f"the answer of a dead letter cannot be read: {error}") from error

    def encrypted(self, cipher: Cipher | None) -> Letter:
        """As it is written. Its record may be encrypted already."""
        if cipher is None or not cipher.encrypts:
            return self
        record = self.record if is_sealed(self.record) else cipher.seal(self._place(b"record"), self.record)
        texts = cipher.seal(self._place(b"answer"), msgspec.json.encode((self.reason, self.answer)))
        return self._replace(record=record, reason="", answer="", sealed=texts)

    def _place(self, column: bytes) -> Place:
        return Place.dead_letter(column, self.sink, self.sequence, self.record_id)
