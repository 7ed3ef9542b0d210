"""`extender openapi`: write or check the OpenAPI document of the service."""

import difflib
import json
from pathlib import Path
from typing import Annotated, Any

import typer


def openapi(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the document to this file.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Exit with code 1 if this file is out of date.")
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="Use the document of the admin listener (health, metrics, debugging).")
    ] = False,
) -> None:
    """Write or check the OpenAPI document of the service."""
    if (out is None) == (check is None):
        raise typer.BadParameter("exactly one of --out and --check is required")
    document = json.dumps(_openapi_document(admin), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if out is not None:
        out.write_text(document, encoding="utf-8")
    elif check is not None:
        _check_up_to_date(check, document, "--admin " if admin else "")


def _openapi_document(is_admin: bool) -> dict[str, Any]:
    from extender.cluster.cache.cache import ClusterCache
    from extender.config import Configuration
    from extender.server import app
    from extender.server.admin import app as admin

    if is_admin:
        return admin.openapi_document()
    return app.openapi_document(app.create_app(ClusterCache(), Configuration()))


def _check_up_to_date(path: Path, document: str, option: str) -> None:
    found = path.read_text(encoding="utf-8") if path.exists() else ""
    if found == document:
        return
    difference = difflib.unified_diff(
        found.splitlines(), document.splitlines(), str(path), "the service", n=1, lineterm=""
    )
    shown = list(difference)
    more = [f"… {len(shown) - 20} more lines"] if len(shown) > 20 else []
    typer.echo("\n".join(shown[:20] + more), err=True)
    typer.echo(f"extender: {path} is out of date: run `extender openapi {option}--out {path}`", err=True)
    raise typer.Exit(1)
