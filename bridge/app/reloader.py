"""Reads the configuration file again when it changed, at SIGHUP, or at an operator's command, and accepts or refuses
it.

It looks at the file every three seconds. inotify would need a watch on each link of the path, and saves a system call
every three seconds.

``Reloader`` takes one order after the other. It compares the file's settings with those in effect, asks ``LiveChange``
what the change would do, and applies it; or it refuses the change, and the former configuration stays in effect. A
refusal that the API server, a full disk, or a file that an option names has caused is tried again after half a minute;
every other one stays until the file changes or somebody asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from bridge.app.live_change import ChangeRefused, Foreseen, LiveChange
from bridge.model.admin import DiskFull, Reloaded, ReloadRequest, UnknownTarget
from bridge.model.status import ConfigurationStatus
from bridge.plan.difference import SettingsDifference, difference
from bridge.plan.plan import Plan
from bridge.plan.plan_from_settings import plan_of
from bridge.plan.preflight import wrong_in_file, wrong_on_this_machine
from bridge.telemetry.facts import Report
from bridge.telemetry.facts.process import ConfigurationReloaded, ReloadRefused
from config.document import ConfigurationFile
from config.errors import ConfigError
from config.schema import Settings

LOOK_EVERY = 3.0
"""Seconds between two looks at the file. The kubelet takes a minute for a changed ConfigMap."""
LOOK_FOR_ROOM = 1.0
"""Seconds between two looks of an operator who waits for a change, whether the disk holds it up."""
SETTLE = 1.0
"""Seconds after a look that found a change, until the look that finds whether its writer is done."""
RETRY_AFTER = 30.0
"""Seconds until a change is tried again that something else than the configuration itself held up."""
_MANAGERS_NEED_RESTART = (
    "sinks: include: managers needs a restart where no sink had it, because the bridge has not kept what it is made of"
)
_NEEDS_RESTART = "changed, and needs a restart; resources, sinks and telemetry.log_level change while the bridge runs"
_UNCONFIRMED = ReloadRequest()


@dataclass(frozen=True, slots=True, eq=False)
class _Order:
    trigger: str
    request: ReloadRequest = _UNCONFIRMED
    answer: asyncio.Future[Reloaded] | None = None

    def give_up(self) -> None:
        """Without an answer so far, none follows."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(UnknownTarget("the bridge ends; its next start reads the file"))


@dataclass(frozen=True, slots=True)
class _Change:
    settings: Settings
    plan: Plan
    difference: SettingsDifference
    foreseen: Foreseen | None
    """None if no option has another value."""


class Reloader:
    """A changed file takes effect as a whole, or is refused as a whole with every reason."""

    def __init__(
        self,
        file: ConfigurationFile,
        settings: Settings,
        *,
        load: Callable[[], Settings],
        use: Callable[[Settings], None],
        report: Report,
    ) -> None:
        """``settings``: in effect, loaded after ``file`` was made. ``load`` raises ConfigError, and may block. ``use``
        puts options into effect that belong to the process, such as the level of the log."""
        self._file = file
        self._settings = settings
        self._load = load
        self._use = use
        self._report = report
        self._orders: asyncio.Queue[_Order] = asyncio.Queue()
        self._live: LiveChange | None = None
        self._applies = False
        self.status = ConfigurationStatus(digest=file.digest, loaded_at=time.time())

    def request(self, trigger: str) -> None:
        """Reads the file again as soon as the bridge has started."""
        self._orders.put_nowait(_Order(trigger))

    async def reload(self, request: ReloadRequest) -> Reloaded:
        """See AdminOperations.reload. A change that has begun when the disk becomes full cannot be undone: nobody waits
        for it any more, and a change that waits behind it is not made."""
        live = self._live
        if live is None:
            raise UnknownTarget("the bridge waits for its first answer of the API server: ask again when it has it")
        answer: asyncio.Future[Reloaded] = asyncio.get_running_loop().create_future()
        self._orders.put_nowait(_Order("command", request, answer))
        try:
            while not (await asyncio.wait([answer], timeout=LOOK_FOR_ROOM))[0]:
                if self._applies and live.outbox.no_room:
                    raise DiskFull(
                        "the disk of the state became full while a change took effect, which goes on when there is "
                        f"room: {live.outbox.no_room}"
                    )
            return answer.result()
        finally:
            answer.cancel()

    async def newest(self, plan: Plan) -> Plan:
        """The plan of the file as it is now, for a bridge that begins to run; ``plan``, which was used so far, if the
        file cannot be used, which is reported."""
        self._file.read()
        try:
            settings, found, _ = await self._loaded()
            await _expect_sound(found)
        except ChangeRefused as refusal:
            self._refuse(_Order("start"), refusal)
            return plan
        self._settings = settings
        self._use(settings)
        self.status = msgspec.structs.replace(
            self.status, digest=self._file.digest, loaded_at=time.time(), refused="", tried_again=False
        )
        return found

    async def run(self, live: LiveChange) -> None:
        """Reloads until cancelled. Raises what a start raises."""
        await live.watched_resources.wait_started()
        self._live = live
        try:
            while True:
                order = await self._next()
                if order.answer is not None and order.answer.done():
                    continue
                try:
                    await self._reload(live, order)
                finally:
                    order.give_up()
        finally:
            self._live = None
            while not self._orders.empty():
                self._orders.get_nowait().give_up()

    async def _next(self) -> _Order:
        now = asyncio.get_running_loop().time
        retry_at = now() + RETRY_AFTER if self.status.tried_again else float("inf")
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE if self._file.is_changing else LOOK_EVERY):
                    return await self._orders.get()
            if self._file.has_changed() or now() >= retry_at:
                return _Order("file")

    # ── A reload ─────────────────────────────────────────────────────────────

    async def _reload(self, live: LiveChange, order: _Order) -> None:
        """Answers the order."""
        self._file.read()
        began = time.monotonic()
        try:
            change = await self._planned(live, order.request)
        except ChangeRefused as refusal:
            self._refuse(order, refusal)
            return
        if change.foreseen is not None:
            self._applies = True
            try:
                await live.apply(change.plan, change.difference, change.foreseen.resources)
            finally:
                self._applies = False
        self._settings = change.settings
        self._use(change.settings)
        self._accept(order, change, time.monotonic() - began)

    async def _planned(self, live: LiveChange, request: ReloadRequest) -> _Change:
        """Raises ChangeRefused. Changes no room."""
        settings, plan, found = await self._loaded()
        if plan.retention.managers and not live.plan.retention.managers:
            raise ChangeRefused([_MANAGERS_NEED_RESTART])
        await _expect_sound(plan)
        if not found.lines:
            return _Change(settings, plan, found, None)
        try:
            await live.outbox.find_room()
        except DiskFull as error:
            raise ChangeRefused([f"state.directory: {error}"], is_final=False) from error
        return _Change(settings, plan, found, await live.foresee(plan, found, request.allow_deletes))

    async def _loaded(self) -> tuple[Settings, Plan, SettingsDifference]:
        """The content of the file. Raises ChangeRefused if it is wrong, or needs a restart."""
        try:
            settings = await asyncio.to_thread(self._load)
        except ConfigError as error:
            raise ChangeRefused([str(problem) for problem in error.problems]) from error
        found = difference(self._settings, settings)
        if found.fixed:
            raise ChangeRefused([f"{path}: {_NEEDS_RESTART}" for path in found.fixed])
        return settings, plan_of(settings, self._file.path), found

    def _accept(self, order: _Order, change: _Change, seconds: float) -> None:
        lines = change.difference.lines
        status = self.status
        self.status = msgspec.structs.replace(
            status,
            digest=self._file.digest,
            loaded_at=time.time(),
            refused="",
            tried_again=False,
            changed=status.changed + bool(lines),
            unchanged=status.unchanged + (not lines),
        )
        self._report(
            ConfigurationReloaded(
                configuration=str(self._file.path),
                trigger=order.trigger,
                digest=self._file.digest,
                changes=lines,
                added=change.difference.added,
                removed=change.difference.removed,
                seconds=seconds,
            )
        )
        if order.answer is not None and not order.answer.done():
            deletes = {} if change.foreseen is None else dict(change.foreseen.deletes)
            order.answer.set_result(Reloaded(str(self._file.path), list(lines), deletes=deletes))

    def _refuse(self, order: _Order, refusal: ChangeRefused) -> None:
        path = str(self._file.path)
        problems = tuple(refusal.problems)
        self.status = msgspec.structs.replace(
            self.status,
            refused="; ".join(problems),
            tried_again=not refusal.is_final,
            refused_at=time.time(),
            refusals=self.status.refusals + 1,
        )
        self._report(
            ReloadRefused(configuration=path, trigger=order.trigger, digest=self._file.digest, problems=problems)
        )
        if order.answer is not None and not order.answer.done():
            order.answer.set_result(Reloaded(path, problems=list(problems), deletes=refusal.deletes))


async def _expect_sound(plan: Plan) -> None:
    """Raises ChangeRefused. In a pod, the file of a Secret may appear later than the option that names it."""
    final = await asyncio.to_thread(wrong_in_file, plan)
    if mistakes := [*await asyncio.to_thread(wrong_on_this_machine, plan), *final]:
        raise ChangeRefused([f"{where}: {reason}" for where, reason in mistakes], is_final=bool(final))
