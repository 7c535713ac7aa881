"""Loads the testbed for all tests: real servers, asked for by fixture."""

import gc
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings

from bridge.cli.process import COLLECTIONS
from tests.kit.examples import examples
from tests.kit.numbering import count_from_one
from tests.kit.webhook_receiver import WebhookReceiver

# Neither the time of one example nor that of making one says anything about the bridge on a machine that others use.
settings.register_profile("kubedelta", examples(deadline=None, suppress_health_check=[HealthCheck.too_slow]))
settings.load_profile("kubedelta")

count_from_one()

# jsonschema would compile the grammars of all formats when it is imported: seconds. No test has it check a format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# A shell's background job ignores SIGINT, and its children would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = ["tests.cluster.plugin", "tests.kit.failures"]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare the garbage collector the thousands of collected tests: a third of the time of tests went into them. Then
    collect as seldom as the bridge itself does: a twelfth of the time went into that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)


@pytest.fixture
async def receiver() -> AsyncIterator[WebhookReceiver]:
    """An HTTP endpoint that takes what a webhook sink sends."""
    async with WebhookReceiver() as running:
        yield running
