"""How a problem is answered: always `{"Error": "…"}`, at most 1 KiB, readable in any terminal.

Rule: no error leaves this service in another shape, and none repeats what was sent.
"""

from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from extender.errors import INTERNAL, ExtenderError, printable

LONGEST_MESSAGE = 250
"""Characters; with up to 4 bytes each the whole body stays below 1 KiB."""

_MESSAGES = {
    404: "no such path; there are POST /filter, /prioritize, /preempt and /bind, GET /livez, /readyz and /metrics",
    405: "this path answers another method; see the Allow header",
}


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The error as an answer."""
    return Response(error_body(message), status, headers=headers, media_type="application/json")


def error_body(message: str) -> bytes:
    """A JSON error body; control characters and the like are shown as escapes, a long message is cut."""
    return msgspec.json.encode({"Error": printable(message)[:LONGEST_MESSAGE]})


async def on_http_exception(_: Request, error: Exception) -> Response:
    """404 and 405 of the router."""
    if not isinstance(error, HTTPException):
        return error_response(500, INTERNAL)
    return error_response(error.status_code, _MESSAGES.get(error.status_code, error.detail), error.headers)


async def on_error(_: Request, error: Exception) -> Response:
    """What a route did not answer itself."""
    if isinstance(error, ExtenderError):
        return error_response(error.status, str(error))
    return error_response(500, INTERNAL)
