"""How a problem is answered: always `{"Error": "…"}`, at most 1 KiB, readable in any terminal.

Rule: no error leaves this service in another shape, and none repeats what was sent.
"""

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from extender.errors import INTERNAL, ExtenderError, printable

LONGEST_MESSAGE = 250
"""Characters; with up to 4 bytes each the whole body stays below 1 KiB."""

_ANOTHER_METHOD = "this path answers another method; see the Allow header"


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The error as an answer."""
    return Response(error_body(message), status, headers=headers, media_type="application/json")


def error_body(message: str) -> bytes:
    """A JSON error body; control characters and the like are shown as escapes, a long message is cut."""
    return msgspec.json.encode({"Error": printable(message)[:LONGEST_MESSAGE]})


def add_error_handlers(app: FastAPI, not_found: str) -> None:
    """Everything that no route answers itself; `not_found` says which paths there are."""
    messages = {404: not_found, 405: _ANOTHER_METHOD}

    async def on_http_exception(_: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return error_response(500, INTERNAL)
        return error_response(error.status_code, messages.get(error.status_code, error.detail), error.headers)

    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_error)


async def on_error(_: Request, error: Exception) -> Response:
    """What a route did not answer itself."""
    if isinstance(error, ExtenderError):
        return error_response(error.status, str(error))
    return error_response(500, INTERNAL)
