"""extender openapi: the OpenAPI document of the service."""

import difflib
import json
from pathlib import Path
from typing import Annotated, Any

import typer


def openapi(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the document to this file.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Exit with code 1 if this file is not up to date.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Of the second listener, which is for people.")] = False,
) -> None:
    """Write or check the OpenAPI document of the service.

    [bold]Examples[/bold]

      extender openapi --out openapi/openapi.json

      extender openapi --check openapi/openapi.json

      extender openapi --debug --check openapi/debug.json
    """
    if (out is None) == (check is None):
        raise typer.BadParameter("give either --out or --check")
    document = json.dumps(_document(debug), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if out is not None:
        out.write_text(document, encoding="utf-8")
    elif check is not None:
        _check_openapi(check, document, "--debug " if debug else "")


def _document(debug: bool) -> dict[str, Any]:
    from extender.cluster.store import ClusterStore
    from extender.config import Configuration
    from extender.server import app
    from extender.server import debug as debug_app

    if debug:
        return debug_app.openapi_document()
    return app.openapi_document(app.create_app(ClusterStore(), Configuration()))


def _check_openapi(path: Path, document: str, option: str) -> None:
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if found == document:
        return
    difference = difflib.unified_diff(
        found.splitlines(), document.splitlines(), str(path), "the service", n=1, lineterm=""
    )
    shown = list(difference)
    more = [f"… {len(shown) - 20} more lines"] if len(shown) > 20 else []
    typer.echo("\n".join(shown[:20] + more), err=True)
    typer.echo(f"extender: {path} is not up to date: run `extender openapi {option}--out {path}`", err=True)
    raise typer.Exit(1)
