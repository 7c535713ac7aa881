"""Takes every fact of the bridge to those who want to know."""

from __future__ import annotations

import logging
from typing import Protocol

from bridge.facts import Fact

_log = logging.getLogger(__name__)


class Observer(Protocol):
    def observe(self, fact: Fact) -> None: ...


class Telemetry:
    """Gives each fact to each observer, in order.

    An observer that fails has a bug, and a bug in counting must not stop delivery: the others still hear the fact,
    and the bridge goes on. Nor may it pass in silence: the first failure of an observer is logged with its traceback,
    and every one is counted in ``failures`` (``kubedelta_telemetry_failures_total``).
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers: list[Observer] = []
        self.failures: dict[str, int] = {}
        """By the observer's class, from zero on."""
        for observer in observers:
            self.add(observer)

    def add(self, observer: Observer) -> None:
        """From now on this one hears too."""
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
            # The standard library's logger swallows its own errors, should it be the log that is broken.
            _log.exception("%s could not take in %s; the bridge goes on without", name, type(fact).__name__)
