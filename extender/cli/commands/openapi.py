"""`extender openapi`: write or check the OpenAPI document of the service."""

import difflib
from pathlib import Path
from typing import Annotated

import typer

MAX_DOCUMENT_BYTES = 16 << 20
"""Maximum size of a document to compare with."""

MAX_PRINTED_LINES = 20
"""Maximum number of printed lines of a difference."""

_SERVER = Path(__file__).parents[2] / "server"

SCHEDULER_DOCUMENT = _SERVER / "scheduler" / "openapi.json"
"""The document of the scheduler's port, kept by hand; tests/server/scheduler/test_openapi.py compares it."""

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
    from extender.cli import logs
    from extender.utilities.regular_file import read_regular_file

    if (out is None) == (check is None):
        raise typer.BadParameter("exactly one of --out and --check is required")
    document = (ADMIN_DOCUMENT if admin else SCHEDULER_DOCUMENT).read_text(encoding="utf-8")
    if out is not None:
        out.write_text(document, encoding="utf-8")
    elif check is not None:
        found = read_regular_file(check, MAX_DOCUMENT_BYTES).decode(errors="replace") if check.exists() else ""
        if found == document:
            return
        before, after = found.splitlines(), document.splitlines()
        lines = list(difflib.unified_diff(before, after, str(check), "the service", n=1, lineterm=""))
        more = [f"… {len(lines) - MAX_PRINTED_LINES} more lines"] if len(lines) > MAX_PRINTED_LINES else []
        typer.echo("\n".join(lines[:MAX_PRINTED_LINES] + more), err=True)
        option = "--admin " if admin else ""
        logs.print_message(f"{check} is out of date: run `extender openapi {option}--out {check}`")
        raise typer.Exit(1)
