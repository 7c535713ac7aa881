from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from bridge.kube import ClusterAccess, KubeClient, connect
from bridge.telemetry.facts import Fact
from tests.kit.certificates import Authority, Certificate
from tests.kit.scripted_server import ScriptedServer

Connect = Callable[..., AbstractAsyncContextManager[KubeClient]]


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
def facts() -> list[Fact]:
    """What ``client`` reports."""
    return []


@pytest.fixture
async def client(server: ScriptedServer, facts: list[Fact]) -> AsyncIterator[KubeClient]:
    async with connect(ClusterAccess(server=server.url), report=facts.append) as connected:
        yield connected


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Of the test servers' certificates."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def server_certificate(authority: Authority) -> Certificate:
    return authority.issue("server", "IP:127.0.0.1,DNS:api.example.test")


@pytest.fixture
async def tls_server(authority: Authority, server_certificate: Certificate) -> AsyncIterator[ScriptedServer]:
    """Its certificate is good for 127.0.0.1 and for api.example.test. It asks for a client's, and takes none."""
    async with ScriptedServer(tls=server_certificate.server_context(clients=authority)) as running:
        yield running
