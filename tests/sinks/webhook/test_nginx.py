"""What a real proxy says of the connection is no verdict on an event."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sinks.base import ALL_STORED
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Server, listens
from tests.kit.certificates import Authority, Certificate
from tests.kit.records import a_delta, changes
from tests.kit.sinks import failure_of
from tests.kit.webhook_receiver import WebhookReceiver
from tests.sinks.webhook.test_sink import opened

pytestmark = pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")

_SETTINGS = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr error;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 4k;
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {server.certificate};
    ssl_certificate_key {server.key};
    ssl_client_certificate {clients.certificate};
    ssl_verify_client on;
    location / {{ proxy_pass {behind}; }}
  }}
}}
"""


class Nginx(Server):
    """Passes on what comes with a certificate of ``clients``."""

    def __init__(self, folder: Path, server: Certificate, clients: Authority, behind: str) -> None:
        super().__init__(folder)
        self.port = reserve_port()
        self._settings = folder / "nginx.conf"
        values = {"folder": folder, "port": self.port, "server": server, "clients": clients, "behind": behind}
        self._settings.write_text(_SETTINGS.format(**values))

    def command(self) -> Sequence[str | Path]:
        return [shutil.which("nginx") or "nginx", "-c", self._settings, "-p", self.folder]

    def is_ready(self) -> bool:
        return listens(self.port)


@asynccontextmanager
async def proxied(receiver: WebhookReceiver, folder: Path, authority: Authority) -> AsyncIterator[str]:
    """The URL of the proxy."""
    behind = receiver.url.removesuffix("/hook")
    nginx = Nginx(folder, authority.issue("server"), authority, behind)
    await asyncio.to_thread(nginx.start)
    try:
        yield f"https://127.0.0.1:{nginx.port}/hook"
    finally:
        await asyncio.to_thread(nginx.stop)


async def test_events_wait_for_a_certificate_that_a_proxy_accepts(receiver: WebhookReceiver, tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path / "ca"), Authority.make(tmp_path / "other", "another authority")
    wrong, right = other.issue("client"), authority.issue("client")
    cert_file, key_file, batch = tmp_path / "tls.crt", tmp_path / "tls.key", changes(12, keys=12)
    cert_file.write_bytes(wrong.certificate.read_bytes())
    key_file.write_bytes(wrong.key.read_bytes())
    async with proxied(receiver, tmp_path / "nginx", authority) as url:
        for own in ({}, {"cert_file": cert_file, "key_file": key_file}):
            sink = await opened(receiver, url=url, ca_file=authority.certificate, **own)
            for _ in range(2):
                receipt = await sink.deliver(batch)
                assert (receipt.rejected, list(receipt.pending)) == ({}, list(range(12)))
                assert "answers 400: " in failure_of(receipt)
            if own:
                cert_file.write_bytes(right.certificate.read_bytes())
                key_file.write_bytes(right.key.read_bytes())
                assert await sink.deliver(batch) == ALL_STORED
            await sink.close()

    assert [event["id"] for event in receiver.events] == [record.id for record in batch]


async def test_a_proxys_verdict_on_a_size_is_one_on_the_event(receiver: WebhookReceiver, tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ca")
    mine = authority.issue("client")
    async with proxied(receiver, tmp_path / "nginx", authority) as url:
        files = {"ca_file": authority.certificate, "cert_file": mine.certificate, "key_file": mine.key}
        sink = await opened(receiver, url=url, **files)
        receipt = await sink.deliver([a_delta(1, body=b'"' + b"x" * 5000 + b'"'), a_delta(2, key="shop/web-2")])
        await sink.close()

    assert list(receipt.rejected) == [0]
    assert not receipt.pending
