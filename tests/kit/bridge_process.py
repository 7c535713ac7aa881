"""The bridge as operators run it: a process with a configuration file, judged by its exit code and its HTTP answers."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import yaml

from bridge.app.admin.client import AdminClient
from bridge.model.admin import SnapshotRequest, UnknownTarget
from bridge.model.status import SnapshotStatus
from tests.cluster.servers.ports import reserve_port
from tests.cluster.servers.process import Process, Server, ServerFailed, says_ok
from tests.kit.commands import Ended, in_a_process
from tests.kit.deadlines import BUSY
from tests.kit.fork_server import fork_server

T = TypeVar("T")

_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value)


@dataclass(frozen=True, slots=True)
class Metrics:
    """What /metrics said at one moment."""

    samples: Mapping[str, Sequence[tuple[Mapping[str, str], float]]]
    """Name as it is exposed → label sets with their values."""

    def value(self, name: str, **labels: str) -> float:
        """The sum over all label sets with these labels; 0 where there is none yet. ``name`` has no prefix:
        ``sink_backlog_records``."""
        found = self.samples.get(f"kubedelta_{name}", ())
        return sum(value for have, value in found if labels.items() <= have.items())

    @classmethod
    def parsed(cls, text: str) -> Self:
        """What promtool finds right: Prometheus' own parser would take longer than all else of a look."""
        samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for name, labels, value in _SAMPLE.findall(text):
            of_sample = {label: _unescaped(said) for label, said in _LABEL.findall(labels)}
            samples.setdefault(name, []).append((of_sample, float(value)))
        return cls(samples)


class BridgeProcess(Server):
    """``python -m bridge run`` on a configuration. ``stop`` raises ServerFailed unless it ends with 0.

    What it must remember lies in ``state``, in the process's folder: it is there again after a ``kill9`` or a ``stop``,
    and so is the address of its metrics.
    """

    start_timeout = 30.0 * BUSY
    stop_timeout = 30.0 * BUSY

    forks = True
    """Forks from a process that has imported the bridge. Otherwise it is started by ``command``."""

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any] | Path,
        *,
        environ: Mapping[str, str] | None = None,
        waits: bool = True,
    ) -> None:
        """``config`` is written to a file, or is one. ``environ`` is added to the environment. Unless it ``waits`` for
        /readyz, ``start`` returns when /healthz answers."""
        super().__init__(folder)
        self.address = f"127.0.0.1:{reserve_port()}"
        self.state = folder / "state"
        """Its `state.directory`. Another one counts from the next start on."""
        self.state.mkdir(exist_ok=True)
        self._environ = {"KUBEDELTA__TELEMETRY__LISTEN": self.address, **(environ or {})}
        self._waits = waits
        if isinstance(config, Path):
            self.config = config
        else:
            self.config = folder / "config.yaml"
            self.configure(config)

    def configure(self, config: Mapping[str, Any]) -> None:
        """What counts from the next start on; for a bridge that runs, from the moment on in which it notices."""
        part = self.config.with_suffix(".part")
        part.write_text(yaml.safe_dump(dict(config), sort_keys=False))
        part.replace(self.config)

    def reconfigure(self, **sections: Any) -> None:
        """The same with these sections in place of the former ones."""
        self.configure({**yaml.safe_load(self.config.read_text()), **sections})

    def words(self) -> Sequence[str]:
        """The command line behind ``kubedelta``."""
        return ["run", "-c", str(self.config)]

    def environ(self) -> dict[str, str]:
        """The variables that it has beyond those of the test process."""
        return {"KUBEDELTA__STATE__DIRECTORY": str(self.state), **self._environ}

    def command(self) -> Sequence[str | Path]:
        environ = [f"{name}={value}" for name, value in self.environ().items()]
        return ["env", *environ, sys.executable, "-m", "bridge", *self.words()]

    def spawn(self, log: int) -> Process:
        if not self.forks or any(name.startswith("PYTHON") for name in self._environ):
            return super().spawn(log)  # Python reads its own variables when it starts.
        return fork_server().start(self.words(), log, log, folder=self.folder, environ=self.environ())

    def is_ready(self) -> bool:
        return says_ok(f"http://{self.address}/{'readyz' if self._waits else 'healthz'}")

    def stop(self) -> None:
        """SIGTERM. Everything that it read is delivered then, if the sinks can take it."""
        process = self._process
        if process is None:
            return
        if not self.running:
            code = process.wait()
            self._process = None
            raise ServerFailed(f"{self} had ended with {code}\n{self.log_tail()}")
        super().stop()
        if process.returncode != 0:
            raise ServerFailed(f"{self} ended with {process.returncode} on SIGTERM, not 0\n{self.log_tail()}")

    def ended(self, timeout: float = 30) -> int:
        """Start it, wait for it to end by itself, and return its exit code. Raises ServerFailed when it goes on."""
        self.launch()
        return self.wait(timeout)

    def wait(self, timeout: float = 30) -> int:
        """Of one that runs: wait for it to end by itself. Raises ServerFailed when it goes on."""
        try:
            return self._launched().wait(timeout * BUSY)
        except subprocess.TimeoutExpired:
            raise ServerFailed(f"{self} should have ended, and runs\n{self.log_tail()}") from None
        finally:
            self.kill9()

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Self]:
        """Started and stopped without holding up the event loop, in which the server it talks to may live. What goes
        wrong inside gets the end of the log as a note."""
        try:
            await asyncio.to_thread(self.start)
            yield self
            await asyncio.to_thread(self.stop)
        except BaseException as error:
            self.kill9()
            error.add_note(f"the log of {self} ends with\n{self.log_tail()}")
            raise

    # ── What it is asked for ─────────────────────────────────────────────────

    async def kubedelta(self, *words: str) -> Ended:
        """``kubedelta WORDS…`` with its configuration and its environment, run to the end."""
        return await asyncio.to_thread(in_a_process, *words, "-c", str(self.config), environ=self.environ())

    async def snapshot(self, sink: str) -> SnapshotStatus:
        """Begins a snapshot, behind the snapshot before, and behind the difference of a changed selection."""
        async with asyncio.timeout(60 * BUSY), AdminClient(self.state) as client:
            while True:
                try:
                    return await client.snapshot(SnapshotRequest(sink))
                except UnknownTarget as refusal:
                    if "ask again" not in str(refusal):
                        raise
                    await asyncio.sleep(0.05)

    # ── What it says ─────────────────────────────────────────────────────────

    async def metrics(self) -> Metrics:
        """Raises OSError where nobody answers; so do the next two."""
        status, text = await self._get("/metrics")
        assert status == httpx.codes.OK, text
        return Metrics.parsed(text)

    async def ready(self) -> bool:
        status, _ = await self._get("/readyz")
        return status == httpx.codes.OK

    async def readiness(self) -> str:
        """The lines of /readyz?verbose."""
        _, text = await self._get("/readyz?verbose")
        return text

    async def _get(self, path: str) -> tuple[int, str]:
        """By hand: it is asked for so often that httpx would take a third of a processor."""
        host, _, port = self.address.rpartition(":")
        async with asyncio.timeout(5 * BUSY):
            reader, writer = await asyncio.open_connection(host, int(port))
            try:
                writer.write(f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n\r\n".encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                writer.close()
        if not body:
            raise ConnectionError("it hung up")
        return int(head.split()[1]), body.decode()

    def rss_bytes(self) -> int:
        """Memory that it holds now. Linux only."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
        return int(kilobytes) * 1024

    async def standing(self) -> dict[str, str]:
        """Of /readyz?verbose: resource → its line, which begins with [+] or [-]."""
        lines = (await self.readiness()).splitlines()
        return {line.split()[1]: line for line in lines if line.startswith(("[+]", "[-]"))}

    def logged(self, *words: str) -> list[str]:
        """The lines of the log with all of these words in them."""
        return [line for line in self.log.read_text().splitlines() if all(word in line for word in words)]

    # ── Waiting ──────────────────────────────────────────────────────────────

    async def until(self, what: str, is_so: Callable[[Metrics], bool], timeout: float = 60) -> Metrics:
        """Read the metrics until they say so, and return them; a bridge that is starting is waited for. Raises
        TimeoutError, which names ``what``, and ServerFailed when the process has ended."""
        return await self._until(what, self.metrics, is_so, timeout)

    async def until_stands(self, resource: str, word: str) -> dict[str, str]:
        """Wait until /readyz?verbose has the word in the resource's line, and return all lines."""
        return await self._until(f"{resource} is {word}", self.standing, lambda lines: word in lines.get(resource, ""))

    async def until_live(self, resource: str) -> None:
        """Wait until the resource, as kubectl names it, is listed and watched."""
        await self.until(f"{resource} is live", lambda now: now.value("resource_live", resource=resource) == 1)

    async def until_delivered(self, *sinks: str, timeout: float = 60) -> Metrics:
        """Wait until these sinks, or all, have settled everything that is in the outbox now."""

        def is_settled(metrics: Metrics) -> bool:
            backlogs = metrics.samples["kubedelta_sink_backlog_records"]
            return all(records == 0 for labels, records in backlogs if not sinks or labels["sink"] in sinks)

        return await self.until(f"{', '.join(sinks) or 'every sink'} has everything", is_settled, timeout)

    async def _until(
        self, what: str, look: Callable[[], Awaitable[T]], is_so: Callable[[T], bool], timeout: float = 60
    ) -> T:
        timeout *= BUSY
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        seen = await look()
                    except OSError:
                        pass  # It starts, or has ended.
                    else:
                        if is_so(seen):
                            return seen
                    _ = self.pid
                    # Nothing announces it. A look costs the bridge and the test some milliseconds.
                    await asyncio.sleep(min(0.02 + (loop.time() - began) / 10, 0.2))
        except TimeoutError:
            raise TimeoutError(f"{what}: not so after {timeout:.0f} s\n{await self._standing_at_last()}") from None

    async def _standing_at_last(self) -> str:
        try:
            return await self.readiness()
        except OSError as error:
            return f"it does not answer ({error!r})\n{self.log_tail()}"
