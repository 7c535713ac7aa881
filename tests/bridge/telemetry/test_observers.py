from __future__ import annotations

import logging

import pytest

from bridge.telemetry.facts import Fact
from bridge.telemetry.facts.delivery import SinkOpened
from bridge.telemetry.observers import Telemetry


class Hears:
    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, fact: Fact) -> None:
        self.facts.append(fact)


class Broken:
    def observe(self, fact: Fact) -> None:
        raise ZeroDivisionError(f"cannot take in {fact}")


def test_every_observer_hears_every_fact_in_order() -> None:
    first, late = Hears(), Hears()
    telemetry = Telemetry(first)
    telemetry.report(SinkOpened("audit"))
    telemetry.add(late)
    telemetry.report(SinkOpened("hook"))
    assert first.facts == [SinkOpened("audit"), SinkOpened("hook")]
    assert late.facts == [SinkOpened("hook")]


def test_a_broken_observer_stops_nobody_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hears = Hears()
    telemetry = Telemetry(Broken(), hears)
    with caplog.at_level(logging.ERROR):
        telemetry.report(SinkOpened("audit"))
        telemetry.report(SinkOpened("hook"))
    assert len(hears.facts) == 2
    assert telemetry.failures == {"Broken": 2, "Hears": 0}
    [line] = caplog.records
    assert line.getMessage() == "Broken failed on SinkOpened; the bridge goes on without it"
    assert line.exc_info is not None
