"""Reads a sink's file and its closed parts again, for ``kubedelta verify``, ``tail`` and ``history build``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from kubedelta_reader import Record
from kubedelta_reader.sources.files import FileSource

from sinks.file.options import STANDARD_OUTPUT, FileOptions
from sinks.options import Format
from sinks.reader import ANY_OBJECT, CannotRead, ReadFilter, ReadPurpose


class FileReader(FileSource):
    """See RecordReader. For ``ReadPurpose.VERIFY`` a lock keeps the closed parts that are not read yet, for an hour at
    most, and a damaged part ends the reading."""

    def __init__(self, name: str, options: FileOptions, *, cluster: str, purpose: ReadPurpose) -> None:
        path = options.path
        judges = purpose is not ReadPurpose.TAIL
        if path == STANDARD_OUTPUT:
            raise CannotRead("standard output cannot be read again")
        if judges and options.format is Format.RAW:
            raise CannotRead("format raw has no operations: deleted and present objects look the same")
        if judges and path.exists() and not path.is_file():
            raise CannotRead(f"{path} is not a regular file and cannot be read again")
        super().__init__(path, hold=purpose is ReadPurpose.VERIFY)

    def read(self, sought: Sequence[ReadFilter] = ANY_OBJECT) -> AsyncGenerator[Sequence[Record]]:
        return super().read()
