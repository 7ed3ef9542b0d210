"""The files in corpus/versions: what minors say otherwise than the base minor, a line for those that say the same.

Rule: lines are in the order of the scenarios, then of their minors; a line that did not change stays as it was.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from tests.parity.agreement import CATEGORIES_OF_1_37, EVERY_CATEGORY, JSON, lines_of
from tests.parity.changes import Verdict, changes_of
from tests.parity.judged import base_minor, patches
from tests.parity.versions import verdicts_file


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Write the lines compressed, in bytes that depend on nothing else."""
    content = BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=content, mtime=0) as file:
        file.write(b"".join(line + b"\n" for line in lines))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.getvalue())


def encoded(line: JSON) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode()


def verdict_of(line: JSON) -> Verdict:
    return {key: line[key] for key in line if key in ("expected", "error")}


@dataclass(frozen=True, slots=True)
class OtherMinors:
    """Verdicts of the minors beside the base minor on one category."""

    path: Path
    """The file, which other categories may share."""
    minors: frozenset[int]
    """Minors that judged the category."""
    lines: dict[str, list[JSON]]
    """Scenario -> its lines, in the order of the file."""

    @classmethod
    def of(cls, category: str, folder: Path) -> "OtherMinors":
        path = verdicts_file(category, folder)
        lines: dict[str, list[JSON]] = defaultdict(list)
        for line in lines_of(path) if path.exists() else ():
            decoded = json.loads(line)
            lines[decoded["id"]].append(decoded)
        return cls(path, frozenset(patches(folder).get(category, {})) - {base_minor(category)}, lines)

    def verdicts(self, name: str, base: Verdict) -> dict[int, Verdict]:
        """Minor -> what it says of the scenario; `base`: what those without a line say."""
        own = {minor: verdict_of(line) for line in self.lines.get(name, ()) for minor in line["minors"]}
        return dict.fromkeys(self.minors, base) | own

    def put(self, name: str, said: Mapping[int, Verdict], base: Verdict) -> None:
        """Set the lines of the scenario: minors that say the same, and not what `base` says, share one."""
        groups: list[tuple[list[int], Verdict]] = []
        for minor in sorted(said, reverse=True):  # the newest first: v1.29 lists scores that others leave out
            if not changes_of(base, said[minor], minor):
                continue
            same = next((minors for minors, verdict in groups if not changes_of(verdict, said[minor], minor)), None)
            if same is None:
                groups.append(([minor], said[minor]))
            else:
                same.insert(0, minor)
        lines = sorted(groups, key=lambda group: group[0])
        self.lines[name] = [{"id": name, "minors": minors, **verdict} for minors, verdict in lines]

    def write(self) -> None:
        folder = self.path.parent.parent
        sharing = [one for one in (*EVERY_CATEGORY, *CATEGORIES_OF_1_37) if verdicts_file(one, folder) == self.path]
        files = [path for one in sharing if (path := folder / f"{one}.jsonl.gz").exists()]
        names = [json.loads(line)["id"] for path in files for line in lines_of(path)]
        lines = [encoded(line) for name in names for line in self.lines.get(name, ())]
        if lines or self.path.exists():
            write_lines(self.path, lines)
