"""A command's answer, whatever happens: exceptions of the operations become answers with a reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from bridge.admin.handlers import COMMAND, CONTINUED, RESULT, json_response
from bridge.admin.protocol import Refusal
from bridge.facts import OperatorCommand
from bridge.model.admin import UnknownTarget

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LONGEST_REASON = 1000
_LONGEST_COMMAND = 200


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


def _reason(error: Exception) -> str:
    """Type and message. File names in it may hold bytes that are not UTF-8, which are replaced."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="replace").decode()
