"""A bridge in this process that follows a configuration file, in front of a playground and files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bridge.app.bridge import Bridge
from bridge.app.reloader import Reloader
from bridge.cli.settings import load_settings
from bridge.model.admin import Reloaded, ReloadRequest
from bridge.plan.plan_from_settings import plan_of
from bridge.telemetry.facts import Fact
from config.document import ConfigurationFile
from config.schema import Settings
from tests.kit.deadlines import BUSY, until
from tests.kit.playground import Playground
from tests.kit.received import Received, from_file, rebuilt, received_lists


@dataclass(slots=True)
class Reloading:
    cluster: Playground
    folder: Path
    sections: dict[str, Any]
    """Of the file as it was written last."""
    bridge: Bridge = field(init=False)
    reloader: Reloader = field(init=False)
    facts: list[Fact] = field(default_factory=list)
    used: list[Settings] = field(default_factory=list)
    """The settings that the process was asked to use."""

    @property
    def file(self) -> Path:
        return self.folder / "kubedelta.yaml"

    def write(self, **sections: Any) -> None:
        """Writes the file with these sections in place of the former ones."""
        self.sections |= sections
        part = self.folder / "kubedelta.yaml.part"
        part.write_text(yaml.safe_dump(self.sections, sort_keys=False))
        part.replace(self.file)

    def write_sinks(self, **sinks: Mapping[str, Any] | None) -> None:
        """Writes the file with these sinks beside the former ones; None for a sink that goes."""
        found = {**self.sections["sinks"], **sinks}
        self.write(sinks={name: options for name, options in found.items() if options is not None})

    def to_file(self, name: str, **options: Any) -> dict[str, Any]:
        """The options of a sink that writes its own file."""
        return {"type": "file", "path": str(self.path(name)), **options}

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.ndjson"

    async def reload(self, allow_deletes: int = 0) -> Reloaded:
        """As the command does."""
        async with asyncio.timeout(30 * BUSY):
            return await self.reloader.reload(ReloadRequest(allow_deletes))

    async def accepted(self) -> list[str]:
        """Reloads a file that is right, and returns the changes."""
        done = await self.reload()
        assert done.problems == []
        return done.changes

    def reported(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    # ── The files of the sinks ───────────────────────────────────────────────

    def received(self, name: str) -> list[Received]:
        """All records of a sink's file, which has no notices."""
        return received_lists(from_file(self.path(name)))

    def steps(self, name: str) -> list[str]:
        """``op key`` of the records in a sink's file."""
        return [f"{each.op} {each.subject.rpartition('/')[2]}" for each in self.received(name)]

    def held(self, name: str) -> dict[str, str]:
        """Name → version of the objects that a reader of the file has."""
        objects = rebuilt(self.received(name)).values()
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}

    def live(self, *resources: str, namespace: str = "") -> dict[str, str]:
        """The same of the cluster."""
        objects = [each for resource in resources for each in self.cluster.list(resource, namespace=namespace)]
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in objects}

    async def until_settled(self) -> None:
        """Waits until all informers are live and no sink has a backlog."""
        await until(self._is_settled)

    async def until_held(self, name: str, expected: Mapping[str, str]) -> None:
        """Waits until a reader of the file has these objects."""
        try:
            await until(lambda: self.held(name) == expected)
        except TimeoutError:
            raise TimeoutError(f"{name} has {self.held(name)}, not {expected}") from None

    def _is_settled(self) -> bool:
        now = self.bridge.status()
        return now.ready and now.all_live and not any(sink.backlog_records for sink in now.sinks)


@asynccontextmanager
async def reloading(folder: Path, *, lease: str = "", **sections: Any) -> AsyncIterator[Reloading]:
    """Begins with configmaps, and a file sink ``copy``, unless ``sections`` say otherwise. Settled. ``lease``: one that
    exists, and is free."""
    async with Playground(bookmark_interval=0.2) as cluster:
        if lease:
            cluster.create(
                "leases.coordination.k8s.io", {"metadata": {"name": lease, "namespace": "default"}, "spec": {}}
            )
        run = Reloading(cluster, folder, {"cluster": {"name": "test", "server": cluster.url}})
        state = folder / "state"
        state.mkdir(exist_ok=True)
        defaults = {
            "resources": [{"resource": "configmaps", "namespaces": ["default"]}],
            "sinks": {"copy": run.to_file("copy")},
            "state": {"directory": str(state)},
            "shutdown_grace_seconds": "5s",
        }
        run.write(**(defaults | sections))
        file = ConfigurationFile(run.file)
        load = partial(load_settings, run.file)
        settings = load()
        run.reloader = Reloader(file, settings, load=load, use=run.used.append, report=run.facts.append)
        run.bridge = Bridge(plan_of(settings, run.file), run.facts.append, run.reloader)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(run.bridge.run())
            await run.until_settled()
            yield run
            run.bridge.stop()
            await running
