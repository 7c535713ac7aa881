"""Passes every fact of the bridge to the observers."""

from __future__ import annotations

import logging
from typing import Protocol

from bridge.telemetry.facts import Fact

_log = logging.getLogger(__name__)


class Observer(Protocol):
    def observe(self, fact: Fact) -> None: ...


class Telemetry:
    """Passes each fact to each observer, in order.

    An observer that raises has a bug, which must not stop deliveries: the other observers still get the fact, and the
    bridge goes on. The first failure of an observer is logged with its traceback, and every failure is counted in
    ``failures`` (``kubedelta_telemetry_failures_total``).
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers: list[Observer] = []
        self.failures: dict[str, int] = {}
        """Observer's class name → count, from zero on."""
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """Adds an observer of later facts."""
        self._observers.append(observer)
        self.failures.setdefault(type(observer).__name__, 0)

    def report(self, fact: Fact) -> None:
        for observer in self._observers:
            try:
                observer.observe(fact)
            except Exception:
                self._failed(observer, fact)

    def _failed(self, observer: Observer, fact: Fact) -> None:
        name = type(observer).__name__
        self.failures[name] += 1
        if self.failures[name] == 1:
            # The standard library's logger swallows its own errors, in case logging itself is broken.
            _log.exception("%s failed on %s; the bridge goes on without it", name, type(fact).__name__)
