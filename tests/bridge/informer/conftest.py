"""Informers wait for timers and for one another: their tests run in virtual time."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.kit.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, type[VirtualTimeLoop]]:
    return {"virtual time": VirtualTimeLoop}
