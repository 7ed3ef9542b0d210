"""The engine beside a judge: random scenarios, compared batch by batch.

Rule: what differs is asked again where upstream draws, before it counts.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tests.parity.versions import as_served
from tests.upstream.draws import answers, may_draw
from tests.upstream.finding import Finding, Outcome, examine
from tests.upstream.generate import CATEGORIES
from tests.upstream.judge import Judge, ProgramFailed
from tests.upstream.workers import in_processes

JSON = dict[str, Any]
Case = tuple[str, int]
"""Category and number of a scenario."""
Generate = Callable[[str, str, int], JSON]
"""Category, seed and number -> scenario."""


def generated(category: str, seed: str, number: int) -> JSON:
    return CATEGORIES[category](seed, number)


@dataclass(frozen=True, slots=True)
class Found:
    """A scenario's finding; the scenario, with its verdict, only where something differs."""

    case: Case
    id: str
    finding: Finding
    scenario: JSON | None


@dataclass(frozen=True, slots=True)
class Differential:
    """The engine beside a judge of the same version, with the scenarios of one seed."""

    judge: Judge
    minor: int
    seed: str
    generate: Generate = generated
    patch: int | None = None
    """None: the minor's newest."""

    def scenario(self, case: Case) -> JSON:
        """Return the scenario as that minor is shown it."""
        try:
            scenario = self.generate(case[0], self.seed, case[1])
        except Exception as error:
            error.add_note(f"generating number {case[1]} of {case[0]}, seed {self.seed}")
            raise
        return as_served(scenario, self.minor)

    def judged(self, scenarios: Sequence[JSON]) -> list[JSON]:
        """Return the scenarios, each with the judge's `expected` or `error`."""
        verdicts = self.judge.verdicts(scenarios)
        return [scenario | verdict for scenario, verdict in zip(scenarios, verdicts, strict=True)]

    def batch(self, cases: Sequence[Case]) -> list[Found]:
        found = []
        for case, judged in zip(cases, self.judged([self.scenario(case) for case in cases]), strict=True):
            finding = self.finding(judged)
            found.append(Found(case, judged["id"], finding, judged if finding.outcome is Outcome.DIFFERS else None))
        return found

    def finding(self, judged: JSON) -> Finding:
        """Compare the two; what differs is `unsettled` if the engine says what upstream says at other times."""
        finding = self._examine(judged)
        if finding.outcome is not Outcome.DIFFERS or not may_draw(judged, self.minor):
            return finding
        asked = {key: value for key, value in judged.items() if key not in ("expected", "error")}
        others = (self._examine(asked | answer).outcome for answer in answers(self.judge, asked))
        if any(one in (Outcome.AGREES, Outcome.EXEMPT) for one in others):
            return Finding(Outcome.EXEMPT, finding.lines, "unsettled")
        return finding

    def _examine(self, judged: JSON) -> Finding:
        return examine(judged, self.minor, self.patch)

    def batches(self, cases: Iterable[Case], size: int, workers: int) -> Generator[list[Found], None, None]:
        """Yield the findings of each batch; several workers are processes with a judge each. Raises ProgramFailed."""
        rest = iter(cases)
        batches = iter(lambda: list(islice(rest, size)), [])
        return (self.batch(one) for one in batches) if workers == 1 else in_processes(self.batch, batches, workers)

    def kinds(self, scenarios: Sequence[JSON]) -> list[frozenset[str]]:
        """Return the kinds of difference of each scenario; none of one that the judge does not survive.

        Nothing is asked again, so that what upstream draws may count as a kind.
        """
        try:
            judged = self.judged(scenarios)
        except ProgramFailed:
            return [frozenset()] if len(scenarios) == 1 else [self.kinds([one])[0] for one in scenarios]
        return [frozenset(self._examine(one).kinds) for one in judged]
