"""Patch releases of Kubernetes that judged the files of the corpus: corpus/judged.json, category -> a patch per minor.

Rule: verdicts never go back to an older patch.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

Patches = dict[str, dict[int, str]]
"""Category -> minor -> patch release, such as "1.36.5"."""

CORPUS: Final = Path(__file__).parent / "corpus"
BASE_MINOR: Final = 36
"""The minor whose verdicts stand in the scenarios of most categories: see `base_minor`."""
_FOLDER_OF_MINOR: Final = re.compile(r"v1\.(\d+)/")
GATES: Final = "gates"
"""The file whose scenarios are each of one minor."""


class OlderPatch(Exception):
    """The judge is older than the one that a category names."""


def patches(corpus: Path = CORPUS) -> Patches:
    listed = json.loads((corpus / "judged.json").read_text(encoding="utf-8"))
    return {category: {minor_of(patch): patch for patch in found} for category, found in listed.items()}


def base_minor(category: str) -> int:
    """Return the minor whose verdicts stand in the scenarios; versions/ has what the others say otherwise."""
    folder = _FOLDER_OF_MINOR.match(category)
    return int(folder[1]) if folder else BASE_MINOR


def write_patches(found: Patches, corpus: Path = CORPUS) -> None:
    """Write one line per category."""
    lines = [
        f"  {json.dumps(category)}: {json.dumps([by_minor[minor] for minor in sorted(by_minor)])}"
        for category, by_minor in found.items()
    ]
    (corpus / "judged.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def minor_of(patch: str) -> int:
    return _numbers(patch)[1]


def categories_of(minor: int, found: Patches) -> list[str]:
    """Return what a judge of the minor judges: as before or, for a new minor, what several minors judged."""
    known = [category for category, by_minor in found.items() if minor in by_minor]
    return known or [category for category, by_minor in found.items() if len(by_minor) > 1 and category != GATES]


def check_not_older(patch: str, categories: Iterable[str], found: Patches) -> None:
    """Raise OlderPatch if one of the categories was judged by a newer patch of the minor."""
    for category in categories:
        before = found.get(category, {}).get(minor_of(patch))
        if before and _numbers(patch) < _numbers(before):
            raise OlderPatch(f"the verdicts of {category} are of {before}: {patch} is older")


def shown(minor: int, categories: Iterable[str], found: Mapping[str, Mapping[int, str]]) -> str:
    """Return the patch that judged the categories, for the header of a table; several if they differ."""
    named = {found[category][minor] for category in categories if minor in found[category]}
    return ", ".join(sorted(named, key=_numbers))


def _numbers(patch: str) -> tuple[int, ...]:
    return tuple(map(int, patch.split(".")))
