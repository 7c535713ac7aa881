"""Answers the operator's commands: a handler for each path of the admin socket, for the page too.

A handler decodes the request, calls the operations, and leaves the command, in the operator's notation, and its result
with the request, for the OperatorCommand fact. ``answered`` surrounds every handler, so that a command has an answer
whatever happens: exceptions of the operations become answers with a reason.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TypeAlias

import msgspec
from aiohttp import web

from bridge.model.admin import About, AdminOperations, ReloadRequest, ReplayRequest, SnapshotRequest, UnknownTarget
from bridge.model.primitives.printable import counted
from bridge.operations.admin.protocol import (
    PREFIX,
    Changed,
    Count,
    DeadLetterChoice,
    DeadLetterQuery,
    FollowQuery,
    Number,
    Refusal,
    SinkName,
)
from bridge.telemetry.facts.process import OperatorCommand

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ChangeDeadLetters: TypeAlias = Callable[[str, Sequence[int] | None], Awaitable[int]]
COMMAND = web.RequestKey("command", str)
RESULT = web.RequestKey("result", str)
CONTINUED = web.RequestKey("continued", bool)
_LONGEST_REASON = 1000
_LONGEST_COMMAND = 200


class AdminHandlers:
    """Decodes each request, calls ``admin``, and encodes its result. Raises the exceptions of ``admin``, and
    MsgspecError for a request of another form."""

    def __init__(self, admin: AdminOperations, about: About) -> None:
        self._admin = admin
        self._about = about

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get(f"{PREFIX}/", self._greeting)
        router.add_get(f"{PREFIX}/cursors", self._cursors)
        router.add_post(f"{PREFIX}/replay", self._replay)
        router.add_get(f"{PREFIX}/snapshots", self._snapshots)
        router.add_post(f"{PREFIX}/snapshots", self._snapshot)
        router.add_post(f"{PREFIX}/snapshots/cancel", self._cancel_snapshot)
        router.add_get(f"{PREFIX}/dead-letters", self._dead_letters)
        router.add_get(f"{PREFIX}/dead-letters/chains", self._chains)
        router.add_get(f"{PREFIX}/dead-letters/{{number}}/object", self._object)
        router.add_post(f"{PREFIX}/dead-letters/retry", self._retry)
        router.add_post(f"{PREFIX}/dead-letters/drop", self._drop)
        router.add_post(f"{PREFIX}/sinks/{{action:retry|pause|resume}}", self._sink)
        router.add_get(f"{PREFIX}/state", self._state)
        router.add_post(f"{PREFIX}/reload", self._reload)
        router.add_get(f"{PREFIX}/follow", self._follow)
        router.add_get(f"{PREFIX}/status", self._status)

    async def _greeting(self, _request: web.Request) -> web.Response:
        """Identifies the bridge; an answer proves that its event loop runs."""
        return json_response(self._about)

    async def _cursors(self, request: web.Request) -> web.Response:
        request[COMMAND] = "cursors"
        found = await self._admin.cursors()
        request[RESULT] = counted(len(found.sinks), "sink")
        return json_response(found)

    async def _replay(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=ReplayRequest)
        request[COMMAND] = _command_of(asked)
        done = await self._admin.replay(asked)
        request[RESULT] = counted(done.records, "record")
        return json_response(done)

    async def _snapshots(self, request: web.Request) -> web.Response:
        request[COMMAND] = "snapshot --status"
        found = await self._admin.snapshots()
        request[RESULT] = counted(len(found), "snapshot")
        return json_response(found)

    async def _snapshot(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=SnapshotRequest)
        narrowed = {"--resource": asked.resource, "--namespace": asked.namespace, "--where": asked.where}
        request[COMMAND] = f"snapshot {asked.sink}{_options_of(narrowed)}"
        begun = await self._admin.snapshot(asked)
        request[RESULT] = counted(begun.objects, "object")
        return json_response(begun)

    async def _cancel_snapshot(self, request: web.Request) -> web.Response:
        sink = msgspec.json.decode(await request.read(), type=SinkName).sink
        request[COMMAND] = f"snapshot {sink} --cancel"
        cancelled = await self._admin.cancel_snapshot(sink)
        request[RESULT] = cancelled.state
        return json_response(cancelled)

    async def _dead_letters(self, request: web.Request) -> web.Response:
        page = msgspec.convert(dict(request.query), DeadLetterQuery, strict=False)
        request[COMMAND] = f"dead-letters list {page.sink or ''}".strip()
        request[CONTINUED] = page.after > 0
        found = await self._admin.dead_letters(page.sink, after=page.after, limit=page.limit)
        request[RESULT] = counted(len(found), "dead letter")
        return json_response(found)

    async def _chains(self, request: web.Request) -> web.Response:
        page = msgspec.convert(dict(request.query), DeadLetterQuery, strict=False)
        request[COMMAND] = f"dead-letters list {page.sink or ''}".strip()
        request[CONTINUED] = page.after > 0
        found = await self._admin.dead_letter_chains(page.sink, after=page.after, limit=page.limit)
        request[RESULT] = counted(sum(each.rejected + each.parked for each in found), "dead letter")
        return json_response(found)

    async def _object(self, request: web.Request) -> web.Response:
        number = msgspec.convert(request.match_info["number"], Number, strict=False)
        request[COMMAND] = f"dead-letters show {number}"
        body = await self._admin.dead_letter_body(number)
        request[RESULT] = counted(len(body), "byte")
        return web.Response(body=body, content_type="application/json")

    async def _retry(self, request: web.Request) -> web.Response:
        return await self._change(request, "retry", self._admin.retry)

    async def _drop(self, request: web.Request) -> web.Response:
        return await self._change(request, "drop", self._admin.drop)

    async def _change(self, request: web.Request, verb: str, change: ChangeDeadLetters) -> web.Response:
        chosen = msgspec.json.decode(await request.read(), type=DeadLetterChoice)
        request[COMMAND] = f"dead-letters {verb} {chosen}"
        count = await change(chosen.sink, chosen.numbers)
        request[RESULT] = counted(count, "dead letter")
        return json_response(Count(count))

    async def _sink(self, request: web.Request) -> web.Response:
        sink = msgspec.json.decode(await request.read(), type=SinkName).sink
        request[COMMAND] = f"sinks {request.match_info['action']} {sink}"
        match request.match_info["action"]:
            case "retry":
                changed = await self._admin.retry_sink(sink)
            case "pause":
                changed = await self._admin.pause_sink(sink)
            case _:
                changed = await self._admin.resume_sink(sink)
        request[RESULT] = "done" if changed else "unchanged"
        return json_response(Changed(changed))

    async def _state(self, request: web.Request) -> web.Response:
        request[COMMAND] = "state check"
        report = await self._admin.state_check()
        request[RESULT] = counted(len(report.problems), "problem")
        return json_response(report)

    async def _status(self, _request: web.Request) -> web.Response:
        """No command in the log, since it is asked every other second."""
        return json_response(await self._admin.status())

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        """A line for each Followed, until the client leaves, or is cut because it does not read."""
        sink = msgspec.convert(dict(request.query), FollowQuery, strict=False).sink
        request[COMMAND] = f"tail {sink or ''}".strip()
        count = 0
        async with aclosing(self._admin.follow(sink)) as found:
            first = await anext(found, None)  # Before the answer begins: its error has a status of its own.
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
            with suppress(ConnectionError):
                await response.prepare(request)
                if first is not None:
                    await response.write(msgspec.json.encode(first) + b"\n")
                async for each in found:
                    await response.write(msgspec.json.encode(each) + b"\n")
                    count += len(each.records)
        request[RESULT] = counted(count, "record")
        return response

    async def _reload(self, request: web.Request) -> web.Response:
        asked = msgspec.json.decode(await request.read(), type=ReloadRequest)
        allowed = f" --allow-deletes {asked.allow_deletes}" if asked.allow_deletes else ""
        request[COMMAND] = f"reload{allowed}"
        done = await self._admin.reload(asked)
        request[RESULT] = "refused" if done.problems else counted(len(done.changes), "change")
        return json_response(done)


def _command_of(asked: ReplayRequest) -> str:
    options = _options_of({"--resource": asked.resource, "--namespace": asked.namespace})
    return f"replay {asked.sink} --from {asked.start}{options}"


def _options_of(narrowed: Mapping[str, str | None]) -> str:
    return "".join(f" {option} {value}" for option, value in narrowed.items() if value is not None)


# ── Around every handler ─────────────────────────────────────────────────────


async def answered(
    request: web.Request, handler: Handler, done: Callable[[web.Request, str], None]
) -> web.StreamResponse:
    """The answer of ``handler``, or a refusal. Calls ``done`` with the reason of a failure, empty for a success, in any
    case. Raises HTTPException where the handler does."""
    why = ""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        why = refusal.reason
        raise
    except UnknownTarget as unknown:
        why = str(unknown)
        return json_response(Refusal(why), status=404)
    except msgspec.MsgspecError as wrong:
        why = str(wrong)
        return json_response(Refusal(why), status=400)
    except Exception as error:
        why = _reason(error)
        return json_response(Refusal(why), status=500)
    finally:
        done(request, why)


def _reason(error: Exception) -> str:
    """Type and message. File names in it may hold bytes that are not UTF-8, which are replaced."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="replace").decode()


def command_fact(
    request: web.Request, why: str, *, uid: int | None = None, pid: int | None = None, client: str = ""
) -> OperatorCommand:
    """The fact of an answered command. ``why``: the reason of a failure, else empty."""
    return OperatorCommand(
        (request.get(COMMAND) or f"{request.method} {request.path}")[:_LONGEST_COMMAND],
        why[:_LONGEST_REASON] or request.get(RESULT, ""),
        done=not why,
        uid=uid,
        pid=pid,
        continued=request.get(CONTINUED, False),
        client=client,
    )


def json_response(value: object, *, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
