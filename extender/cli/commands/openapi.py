"""`extender openapi`: write or check the OpenAPI document of the service."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

from extender.utilities.regular_file import read_regular_file

MAX_DOCUMENT_BYTES = 16 << 20
"""Size of a document to compare with."""

_SERVER = Path(__file__).parents[2] / "server"

SCHEDULER_DOCUMENT = _SERVER / "scheduler" / "openapi.json"
"""The document of the scheduler's port, which is kept by hand: tests/server/scheduler/test_openapi.py compares it."""

ADMIN_DOCUMENT = _SERVER / "admin" / "openapi.json"
"""The document of the admin listener; tests/server/admin/test_openapi.py compares it."""


def openapi(
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the document to this file.")] = None,
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Exit with code 1 if this file is out of date.")
    ] = None,
    admin: Annotated[
        bool, typer.Option("--admin", help="Use the document of the admin listener (health, metrics, debugging).")
    ] = False,
) -> None:
    """Write or check the OpenAPI document of the service.

    \b
    Examples:
      # Write the document of the scheduler port
      extender openapi --out openapi.json
      # Check that a copy of the document of the admin port is up to date
      extender openapi --admin --check admin.json

    See docs/wire.md.
    """
    if (out is None) == (check is None):
        raise typer.BadParameter("exactly one of --out and --check is required")
    document = (ADMIN_DOCUMENT if admin else SCHEDULER_DOCUMENT).read_text(encoding="utf-8")
    if out is not None:
        out.write_text(document, encoding="utf-8")
    elif check is not None:
        _check_up_to_date(check, document, "--admin " if admin else "")


def _check_up_to_date(path: Path, document: str, option: str) -> None:
    found = read_regular_file(path, MAX_DOCUMENT_BYTES).decode(errors="replace") if path.exists() else ""
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
