"""A playground that misbehaves on request: ``server.misbehave``."""

from __future__ import annotations

from typing import Any

from bridge import playground
from bridge.playground.http.faults import Faults
from tests.kit.misbehaviour import Misbehaviour


class Playground(playground.Playground):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        kinds = self.catalogue
        self.misbehave.attach(self._state.store, self.watches, lambda name: kinds.named(name).collection)

    def _faults(self) -> Faults:
        self.misbehave = Misbehaviour()
        return self.misbehave
