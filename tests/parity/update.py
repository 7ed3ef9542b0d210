"""Bring the verdicts of a corpus up to date from the judge of one minor, and print which scenarios changed.

    python -m tests.parity.update --judge build/judge-1.36
    python -m tests.parity.update --judge build/judge-1.29 --workers 12 --category volumes wide/volumes2

A judge of a category's base minor writes `expected` into the scenarios; that of another minor writes versions/, a line
where it says otherwise; either writes the scenarios of gates.jsonl.gz that are of its minor. A file is written only
where a verdict changed, so that the diff is what Kubernetes changed.

Rule: a scenario at which kube-scheduler panics leaves the corpus; it is counted, never printed.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.parity.agreement import lines_of
from tests.parity.changes import Changes, Verdict, name_of, panics
from tests.parity.judged import (
    BASE_MINOR,
    CORPUS,
    GATES,
    OlderPatch,
    base_minor,
    categories_of,
    check_not_older,
    minor_of,
    patches,
    write_patches,
)
from tests.parity.other_minors import OtherMinors, encoded, verdict_of, write_lines
from tests.parity.versions import as_served, verdicts_file
from tests.upstream.draws import answers, may_draw
from tests.upstream.generate.configurations import without_extenders
from tests.upstream.judge import REFUSAL, Judge, ProgramFailed

JSON = dict[str, Any]


# --- the judge --------------------------------------------------------------------------------------------------------


def judged_by(judge: Judge, category: str, scenarios: Sequence[JSON], minor: int) -> dict[str, Verdict]:
    """Scenario -> verdict. Raises ProgramFailed for an error that is not kube-scheduler's."""
    found = judge.verdicts([_shown(category, scenario, minor) for scenario in scenarios])
    for one in found:
        if "error" in one and not REFUSAL.match(one["error"]):
            raise ProgramFailed(f"{category}: {one['id']}: {one['error']}")
    return {one["id"]: verdict_of(one) for one in found}


def _shown(category: str, scenario: JSON, minor: int) -> JSON:
    """The scenario as the judge reads it: no extender answers there."""
    asked = as_served(scenario, minor)
    return asked | {"config": without_extenders(asked["config"])} if category == "own/configurations" else asked


# --- the corpus -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Corpus:
    """The files in a folder such as tests/parity/corpus, and the judge that is asked about them."""

    folder: Path
    judge: Judge
    minor: int
    """Options of the judge."""

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
        decided = [one for one in scenarios if name_of(one) not in panicking]
        changes = Changes(category, len(scenarios), len(panicking))
        if category == GATES or self.minor == base_minor(category):
            self._update_scenarios(changes, decided, verdicts)
        else:
            self._update_versions(changes, decided, verdicts)
        return changes

    def _path(self, category: str) -> Path:
        return self.folder / f"{category}.jsonl.gz"

    def _judged_with_gates(self, scenarios: Sequence[JSON]) -> dict[str, Verdict]:
        found: dict[str, Verdict] = {}
        for _, group in groupby(sorted(scenarios, key=_gates_of), _gates_of):
            alike = list(group)
            by_id = judged_by(replace(self.judge, gates=alike[0]["gates"]), GATES, alike, self.minor)
            found |= {name_of(one): by_id[one["id"]] for one in alike}
        return found

    def _update_scenarios(self, changes: Changes, scenarios: Sequence[JSON], verdicts: Mapping[str, Verdict]) -> None:
        """Put the verdicts that changed into the scenarios; other minors keep what they said."""
        category, new = changes.category, dict[str, JSON]()
        others = OtherMinors.of(category, self.folder)
        for scenario in scenarios:
            name, after = name_of(scenario), verdicts[name_of(scenario)]
            if "error" in after and self.minor == BASE_MINOR:  # tests of its categories want a verdict of each
                raise ProgramFailed(f"{category}: {name}: {after['error']}")
            if changes.note(scenario, scenario, after, self.minor, again=partial(self._answers, category, scenario)):
                new[name] = {key: value for key, value in scenario.items() if key not in ("expected", "error")} | after
                if category != GATES:
                    others.put(name, others.verdicts(name, verdict_of(scenario)), after)
        if new:
            lines = [(_name_in(line), line) for line in lines_of(self._path(category))]
            write_lines(self._path(category), (encoded(new[name]) if name in new else line for name, line in lines))
            if category != GATES:
                others.write()

    def _update_versions(self, changes: Changes, scenarios: Sequence[JSON], verdicts: Mapping[str, Verdict]) -> None:
        """Put what the minor says otherwise than the base minor into versions/."""
        others = OtherMinors.of(changes.category, self.folder)
        for scenario in scenarios:
            name, base = scenario["id"], verdict_of(scenario)
            said, after = others.verdicts(name, base), verdicts[scenario["id"]]
            is_first = self.minor not in said
            before = said.get(self.minor, base)
            again = partial(self._answers, changes.category, scenario)
            if changes.note(scenario, before, after, self.minor, is_first=is_first, again=again):
                others.put(name, said | {self.minor: after}, base)
        if changes.lines:
            others.write()

    def _answers(self, category: str, scenario: JSON) -> list[Verdict]:
        """What the judge says of a scenario that changed when it is asked again; nothing where upstream cannot draw."""
        asked = _shown(category, scenario, self.minor)
        judge = replace(self.judge, gates=scenario.get("gates", {}))
        return answers(judge, asked) if may_draw(asked, self.minor) else []

    def _remove(self, category: str, names: frozenset[str]) -> None:
        """Remove the scenarios from the category's file and from versions/."""
        for path in (self._path(category), verdicts_file(category, self.folder)):
            if path.exists():
                lines = lines_of(path)
                kept = [line for line in lines if _name_in(line) not in names]
                if len(kept) < len(lines):
                    write_lines(path, kept)


def _gates_of(scenario: JSON) -> str:
    return json.dumps(scenario["gates"], sort_keys=True)


def _name_in(line: bytes) -> str:
    return name_of(json.loads(line))


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
    except (OlderPatch, ProgramFailed) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
