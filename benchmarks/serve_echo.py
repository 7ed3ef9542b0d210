"""Bare applications as baselines: they send back the request body, or the number of its nodes.

/bare is answered by uvicorn alone, all other paths by a bare FastAPI application.
"""

import argparse
import socket
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

KEEP_ALIVE_SECONDS = 600
"""Keep-alive timeout; generating a large body takes longer than uvicorn's default."""


class Nodes(msgspec.Struct):
    items: list[msgspec.Raw]


class Arguments(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    nodes: Nodes


def create_app() -> ASGIApp:
    framework = create_fastapi_app()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/bare":
            await echo(receive, send)
        else:
            await framework(scope, receive, send)

    return app


async def echo(receive: Receive, send: Send) -> None:
    """Send the request body back without a framework."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def create_fastapi_app() -> FastAPI:
    app, decoder = FastAPI(), msgspec.json.Decoder(Arguments)

    @app.get("/readyz")
    async def ready() -> Response:
        return Response()

    @app.post("/echo")
    async def echo(request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    @app.post("/nodes")
    async def nodes(request: Request) -> Response:
        arguments = decoder.decode(await request.body())
        return Response(msgspec.json.encode(arguments), media_type="application/json")

    @app.post("/names")
    async def names(request: Request) -> Response:
        arguments = decoder.decode(await request.body())
        return Response(msgspec.json.encode(len(arguments.nodes.items)), media_type="application/json")

    return app


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serve_echo", description=__doc__)
    parser.add_argument("--fd", type=int, required=True, help="file descriptor of a listening socket")
    parser.add_argument("--admin-port", type=int, help="ignored")
    given: Any = parser.parse_args()
    config = uvicorn.Config(create_app(), log_level="warning", access_log=False, timeout_keep_alive=KEEP_ALIVE_SECONDS)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=given.fd)])


if __name__ == "__main__":
    main()
