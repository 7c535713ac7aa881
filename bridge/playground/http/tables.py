"""Writes objects as a Table, the form in which kubectl asks for them (``Accept: application/json;as=Table;…``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bridge.playground.http.errors import bad_request, decode, encode
from bridge.playground.objects.catalogue import Kind, PrinterColumn
from bridge.playground.objects.columns import Columns, columns_of
from bridge.playground.objects.objects import METADATA, Manifest

_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(frozen=True, slots=True)
class TableForm:
    """The form of the answers to one request."""

    api_version: str
    """``meta.k8s.io/v1`` or ``meta.k8s.io/v1beta1``."""
    kind: Kind
    columns: Columns
    include: str
    """What a row has of its object: ``Metadata``, ``None`` or ``Object``."""
    now: Callable[[], datetime]
    """For ages."""

    @classmethod
    def asked(
        cls, api_version: str, kind: Kind, version: str, query: Mapping[str, str], now: Callable[[], datetime]
    ) -> TableForm:
        """Raises StatusError (400) for an unknown ``includeObject``."""
        include = query.get("includeObject") or "Metadata"
        if include not in ("Metadata", "None", "Object"):
            why = f"Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
            raise bad_request(f"Unable to convert to Table as requested: includeObject: {why}")
        return cls(api_version, kind, columns_of(kind, version), include, now)

    def of(self, manifests: Iterable[Manifest], metadata: Mapping[str, Any], *, headers: bool = True) -> bytes:
        """The objects of a list whose ``metadata`` these are."""
        now = self.now()
        table = {
            "kind": "Table",
            "apiVersion": self.api_version,
            "metadata": metadata,
            "columnDefinitions": [_definition(each) for each in self.columns.columns] if headers else None,
            "rows": [self._row(each, now) for each in manifests],
        }
        return encode(table)

    def of_one(self, body: bytes, *, headers: bool = True) -> bytes:
        """A single object; watches send the headers with the first one alone."""
        manifest = decode(body)
        return self.of([manifest], {"resourceVersion": manifest["metadata"]["resourceVersion"]}, headers=headers)

    def _row(self, manifest: Manifest, now: datetime) -> dict[str, Any]:
        row: dict[str, Any] = {"cells": self.columns.cells(manifest, now)}
        status = manifest.get("status") if self.kind.name == "pods" else None
        phase = str(status.get("phase")) if isinstance(status, dict) else ""
        if said := _ENDS.get(phase):
            row["conditions"] = [{"type": "Completed", "status": "True", "reason": phase, "message": said}]
        match self.include:
            case "None":
                row["object"] = None
            case "Object":
                row["object"] = manifest
            case _:
                known = manifest["metadata"]
                metadata = {name: known[name] for name in METADATA if name in known}
                row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": metadata}
        return row


def _definition(column: PrinterColumn) -> dict[str, Any]:
    """A TableColumnDefinition. The real server describes each column; kubectl prints no description."""
    named = {"name": column.name, "type": column.type, "format": column.format}
    return {**named, "description": "", "priority": column.priority}
