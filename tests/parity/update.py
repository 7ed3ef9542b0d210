"""Bring the verdicts of a corpus up to date from the judge of one minor, and print which scenarios changed.

    python -m tests.parity.update --judge build/judge-1.36
    python -m tests.parity.update --judge build/judge-1.29 --workers 12 --category volumes wide/volumes2

A judge of the base minor writes `expected` into the scenarios; that of another minor writes versions/, a line where it
says otherwise; either writes the scenarios of gates.jsonl.gz that are of its minor. A file is written only where a
verdict changed, so that the diff is what Kubernetes changed.

Rule: a scenario at which kube-scheduler panics leaves the corpus; it is counted, never printed.
"""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from tests.parity.agreement import lines_of
from tests.parity.changes import Changes, Verdict, changes_of, is_chance, panics
from tests.parity.judged import (
    BASE_MINOR,
    CORPUS,
    GATES,
    OlderPatch,
    categories_of,
    check_not_older,
    minor_of,
    patches,
    write_patches,
)
from tests.parity.other_minors import OtherMinors, encoded, verdict_of, write_lines
from tests.parity.versions import cluster_of, verdicts_file
from tests.upstream.generate.configurations import without_extenders
from tests.upstream.judge import Judge, JudgeFailed

JSON = dict[str, Any]
REFUSAL: Final = re.compile(r"config: |initializing profiles: ")
"""How the judge's error begins where kube-scheduler refuses the configuration."""


# --- the judge --------------------------------------------------------------------------------------------------------


def judged_by(judge: Judge, category: str, scenarios: Sequence[JSON], minor: int) -> dict[str, Verdict]:
    """Scenario -> verdict. Raises JudgeFailed for an error that is not kube-scheduler's."""
    found = judge.verdicts([_shown(category, scenario, minor) for scenario in scenarios])
    for one in found:
        if "error" in one and not REFUSAL.match(one["error"]):
            raise JudgeFailed(f"{category}: {one['id']}: {one['error']}")
    return {one["id"]: verdict_of(one) for one in found}


def _shown(category: str, scenario: JSON, minor: int) -> JSON:
    """The scenario as the judge reads it: no extender answers there."""
    shown = scenario | {"cluster": cluster_of(scenario, minor)}
    return shown | {"config": without_extenders(shown["config"])} if category == "own/configurations" else shown


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files in a folder such as tests/parity/corpus, and the judge that is asked about them."""

    folder: Path
    judge: Judge
    minor: int
    """Of the judge."""

    def update(self, category: str) -> Changes:
        """Write the files of the category with what the judge says; return what changed."""
        scenarios = [json.loads(line) for line in lines_of(self._path(category))]
        if category == GATES:
            scenarios = [one for one in scenarios if one["minor"] == self.minor]
            verdicts = self._judged_with_gates(scenarios)
        else:
            verdicts = judged_by(self.judge, category, scenarios, self.minor)
        panicking = frozenset(name for name, one in verdicts.items() if panics(one))
        if panicking:
            self._remove(category, panicking)
        decided = [one for one in scenarios if one["id"] not in panicking]
        if category == GATES or self.minor == BASE_MINOR:
            changed = self._update_scenarios(category, decided, verdicts)
        else:
            changed = self._update_versions(category, decided, verdicts)
        return Changes(category, len(scenarios), changed, len(panicking))

    def _path(self, category: str) -> Path:
        return self.folder / f"{category}.jsonl.gz"

    def _judged_with_gates(self, scenarios: Sequence[JSON]) -> dict[str, Verdict]:
        found: dict[str, Verdict] = {}
        for _, group in groupby(sorted(scenarios, key=_gates_of), _gates_of):
            alike = list(group)
            found |= judged_by(replace(self.judge, gates=alike[0]["gates"]), GATES, alike, self.minor)
        return found

    def _update_scenarios(
        self, category: str, scenarios: Sequence[JSON], verdicts: Mapping[str, Verdict]
    ) -> dict[str, dict[str, str]]:
        """Put the verdicts that changed into the scenarios; other minors keep what they said."""
        changed: dict[str, dict[str, str]] = {}
        new: dict[str, JSON] = {}
        others = OtherMinors.of(category, self.folder)
        for scenario in scenarios:
            name, after = scenario["id"], verdicts[scenario["id"]]
            if "error" in after:
                raise JudgeFailed(f"{category}: {name}: {after['error']}")
            found = changes_of(scenario, after, self.minor)
            if found and not is_chance(scenario):
                changed[name], new[name] = found, scenario | after
                if category != GATES:
                    others.put(name, others.said(name, verdict_of(scenario)), after)
        if changed:
            lines = [(_id_of(line), line) for line in lines_of(self._path(category))]
            write_lines(self._path(category), (encoded(new[name]) if name in new else line for name, line in lines))
            if category != GATES:
                others.write()
        return changed

    def _update_versions(
        self, category: str, scenarios: Sequence[JSON], verdicts: Mapping[str, Verdict]
    ) -> dict[str, dict[str, str]]:
        """Put what the minor says otherwise than the base minor into versions/."""
        changed: dict[str, dict[str, str]] = {}
        others = OtherMinors.of(category, self.folder)
        for scenario in scenarios:
            name, base = scenario["id"], verdict_of(scenario)
            said, after = others.said(name, base), verdicts[scenario["id"]]
            found = changes_of(said.get(self.minor, base), after, self.minor)
            if found and not (self.minor in said and is_chance(scenario)):
                changed[name] = found
                others.put(name, said | {self.minor: after}, base)
        if changed:
            others.write()
        return changed

    def _remove(self, category: str, names: frozenset[str]) -> None:
        """Remove the scenarios from the category's file and from versions/."""
        for path in (self._path(category), verdicts_file(category, self.folder)):
            if path.exists():
                lines = lines_of(path)
                kept = [line for line in lines if _id_of(line) not in names]
                if len(kept) < len(lines):
                    write_lines(path, kept)


def _gates_of(scenario: JSON) -> str:
    return json.dumps(scenario["gates"], sort_keys=True)


def _id_of(line: bytes) -> str:
    name: str = json.loads(line)["id"]
    return name


# --- the command ------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.update", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--judge", type=Path, required=True, help="the judge, as built by `make judge`")
    parser.add_argument(
        "--workers", type=int, default=2, help="scenarios at a time; older judges wait more than they work"
    )
    parser.add_argument("--category", nargs="*", help="default: all that this minor judged before")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a copy of the corpus, to try something")
    options = parser.parse_args(arguments)
    try:
        judge = Judge(options.judge, options.workers)
        patch, found = judge.version, patches(options.corpus)
        corpus = Corpus(options.corpus, judge, minor_of(patch))
        categories = options.category or categories_of(corpus.minor, found)
        check_not_older(patch, categories, found)
        for category in categories:
            print(corpus.update(category), flush=True)  # noqa: T201 - the output of a command
            found.setdefault(category, {})[corpus.minor] = patch
            write_patches(found, options.corpus)
    except (OlderPatch, JudgeFailed) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
