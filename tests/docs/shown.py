"""Run what a page shows: its commands with their output, its requests of curl, and the Python of the README."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
(PYTHON,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CALLS = re.findall(r"^\$ (curl .*localhost.*)\n((?:.+\n)+?)```", README, re.MULTILINE)
"""Commands of curl in the README, and what they print."""
COMMANDS = re.findall(
    r"^\$ (?:echo '(.*)' \| )?extender ((?:why --example|explain|simulate) .*)\n((?!\$).+\n(?:.+\n)*?)```",
    README,
    re.MULTILINE,
)
"""Standard input, arguments of `extender`, and what is printed."""


def missing(shown: str, printed: str) -> str | None:
    """Return the first shown line that is not printed after those before it, if any; `…` stands for others."""
    lines = iter(printed.splitlines())
    return next((line for line in shown.splitlines() if line != "…" and line not in lines), None)


class Request(NamedTuple):
    """What a command of curl sends."""

    method: str
    port: int
    path: str
    """With its query."""
    body: str | None

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json"} if self.body else {}


def request_of(command: str) -> Request:
    """Return the request of `curl localhost:PORT/PATH`, with --json or without."""
    words = shlex.split(command)
    url = urlsplit("//" + next(word for word in words if word.startswith("localhost")))
    assert url.port is not None, command
    body = words[words.index("--json") + 1] if "--json" in words else None
    return Request("POST" if body else "GET", url.port, f"{url.path}?{url.query}", body)


def write_files_of_python(directory: Path) -> None:
    """Write the files that the README's Python reads."""
    example = ROOT / "extender" / "cluster" / "files" / "example.yaml"
    (directory / "cluster.json").write_bytes(example.read_bytes())
    profiles = ROOT / "deploy" / "scheduler" / "two-profiles.yaml"
    (directory / "scheduler-config.yaml").write_bytes(profiles.read_bytes())
