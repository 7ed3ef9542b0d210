"""A bare FastAPI application as a baseline: it sends back the request body, or the number of its nodes."""

import argparse
import socket
from typing import Any

import msgspec
import uvicorn
from fastapi import FastAPI, Request, Response

KEEP_ALIVE_SECONDS = 600
"""Keep-alive timeout; generating a large body takes longer than uvicorn's default."""


class Nodes(msgspec.Struct):
    items: list[msgspec.Raw]


class Arguments(msgspec.Struct, rename="pascal"):
    pod: msgspec.Raw
    nodes: Nodes


def create_app() -> FastAPI:
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
