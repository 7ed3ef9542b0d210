"""Check that everything that is released has the version of its tag: `python -m tests.e2e.release.check v0.1.0`.

Prints a line per mistake; exit code 1 if there is one. `make check-release` and the release workflow run it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.release import addresses
from tests.e2e.release.changelog import ROOT, section
from tests.e2e.release.versions import versions

CHART = "deploy/helm/kube-scheduler-extender/Chart.yaml"
ADDRESSED = ("pyproject.toml", CHART, "mkdocs.yml")
"""Files that say where the project lives: no reserved name belongs into them."""

PLACES = ("*.md", "*.toml", "*.yml", ".github/**/*", "deploy/**/*", "docs/**/*", "extender/**/*")
"""What people read or get."""
PLACEHOLDERS = ("kube-scheduler-extender.example.com", "code.example.com", "images.example.com")
"""Names that stand for the project's own in PLACES. Any other reserved name is an example, and stays."""

_HOST = re.compile(r"https?://([\w.-]+)|((?:[\w-]+\.)+example\.com)")
_RESERVED = re.compile(r"(?:^|\.)(?:example\.(?:com|net|org)|test|example|invalid|localhost)$")
"""Names that RFC 2606 reserves: nothing of the project can be there."""


def mistakes(root: Path, tag: str) -> list[str]:
    """Return what keeps the checkout from being released as that tag, a line each."""
    version = tag.removeprefix("v")
    found = [] if tag.startswith("v") else [f"tag {tag}: is not v followed by a version"]
    found += [f"{place}: has version {own}, the tag is {tag}" for place, own in versions(root) if own != version]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    if section(changelog, version) is None:
        found.append(f"CHANGELOG.md: has no section `## [{version}] - YYYY-MM-DD`")
    if f"\n[{version}]: " not in changelog:
        found.append(f"CHANGELOG.md: has no line `[{version}]: ` with the address of the release")
    return [*found, *addresses.mistakes(root), *_reserved_names(root)]


def files(root: Path) -> list[Path]:
    """Return the files of PLACES, but for bytecode, which other processes may be writing."""
    found = {path for pattern in PLACES for path in root.glob(pattern) if "__pycache__" not in path.parts}
    return sorted(path for path in found if path.is_file())


def _reserved_names(root: Path) -> Iterator[str]:
    """Yield the first place in each file of each name that is to be replaced."""
    for path in files(root):
        name, content = path.relative_to(root).as_posix(), path.read_bytes()
        if b"example" not in content and name not in ADDRESSED:
            continue
        text, found = content.decode("utf-8", "replace"), set()
        for match in _HOST.finditer(text):
            host = match[1] or match[2]
            if host not in found and (host in PLACEHOLDERS or (name in ADDRESSED and _RESERVED.search(host))):
                found.add(host)
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {host} is a reserved name (RFC 2606)"


def main(tag: str) -> int:
    found = mistakes(ROOT, tag)
    sys.stdout.write("".join(f"{line}\n" for line in found) or f"{tag} can be released\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
