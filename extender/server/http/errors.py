"""Error responses: always `{"Error": "…"}`, at most 1 KiB, safe to print on any terminal.

Rule: every error of the extender has this shape, and none echoes request content.
"""

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from extender.errors import INTERNAL, ExtenderError, printable

MAX_MESSAGE_CHARACTERS = 250
"""Maximum length of an error message; at up to 4 bytes per character, the body stays below 1 KiB."""

METHOD_NOT_ALLOWED = "method not allowed; see the Allow header"


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the HTTP response for an error."""
    return Response(error_body(message), status, headers=headers, media_type="application/json")


def error_body(message: str) -> bytes:
    """Return the JSON error body; non-printable characters are escaped, a long message is truncated."""
    return msgspec.json.encode({"Error": printable(message)[:MAX_MESSAGE_CHARACTERS]})


def add_error_handlers(app: FastAPI, not_found: str) -> None:
    """Answer errors, and requests without a route, with an error body; `not_found`: message with the valid paths."""
    messages = {404: not_found, 405: METHOD_NOT_ALLOWED}

    async def answer(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return error_response(error.status_code, messages.get(error.status_code, error.detail), error.headers)
        if isinstance(error, ExtenderError):
            return error_response(error.status, str(error))
        return error_response(500, INTERNAL)

    for kind in (HTTPException, ExtenderError, Exception):
        app.add_exception_handler(kind, answer)
