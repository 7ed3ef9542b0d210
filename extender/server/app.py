"""Put the service together: one FastAPI application from a store and a configuration.

Rule: importing this starts nothing; all state hangs on the application that `create_app` returns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from extender import __version__
from extender.cluster.store import ClusterStore
from extender.config import Configuration
from extender.server import openapi
from extender.server.errors import on_error, on_http_exception
from extender.server.routes import create_router
from extender.server.verbs import Service


class Source(Protocol):
    """Where the picture comes from, as `extender.cluster.reload.FileSource`."""

    last_error: str | None
    """Why the store does not hold what the source has now; None if it does."""

    async def run(self) -> None:
        """Keep the store equal to the source until cancelled."""


def create_app(store: ClusterStore, config: Configuration, source: Source | None = None) -> FastAPI:
    """The service; while it runs it follows `source`, if there is one."""
    app = FastAPI(
        title=openapi.TITLE,
        description=openapi.DESCRIPTION,
        version=__version__,
        lifespan=_follow_source,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = Service(
        store,
        config.profile(),
        on_preempt_failure=config.preemption.on_failure,
        max_body_names=config.server.max_body_names,
        max_body_full=config.server.max_body_full,
    )
    app.state.source = source
    app.include_router(create_router())
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_error)
    return app


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the service, as it stands in openapi/openapi.json."""
    return openapi.document(app)


@contextlib.asynccontextmanager
async def _follow_source(app: FastAPI) -> AsyncIterator[None]:
    source: Source | None = app.state.source
    if source is None:
        yield
        return
    following = asyncio.create_task(source.run(), name="follow-cluster-file")
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
