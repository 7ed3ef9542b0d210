"""Print the CHANGELOG's section of a tag, for the notes of its release: `python -m tests.e2e.release.changelog v0.1.0`.

Exit code 1 if the CHANGELOG has no dated section of that version.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def section(text: str, version: str) -> str | None:
    """Return what stands under the heading of that version, without the heading; None without a dated heading."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d{{2}}-\d{{2}}$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |^\[[^\]]+\]: |\Z)", text, re.MULTILINE | re.DOTALL)
    return found and found[1].strip() + "\n"


def with_absolute_links(text: str, source: str, tag: str) -> str:
    """Return the text with links to files of that tag: a release's page is not beside them."""
    return re.sub(r"\]\((?!https?:)([^)]+)\)", rf"]({source}/blob/{tag}/\1)", text)


def main(tag: str) -> int:
    version = tag.removeprefix("v")
    found = section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    if found is None:
        sys.stderr.write(f"error: CHANGELOG.md has no section `## [{version}] - YYYY-MM-DD`\n")
        return 1
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sys.stdout.write(with_absolute_links(found, project["urls"]["Source"], tag))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
