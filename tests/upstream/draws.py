"""Answers of a kube-scheduler that draws.

Up to 1.35, devices are tried in the order in which a Go map has their slices. The judge asks upstream twice
until both runs agree, so that a rare draw shows only in many verdicts.
"""

from typing import Any, Final

from tests.upstream.judge import Judge

JSON = dict[str, Any]

SLICES_IN_ORDER: Final = 36
"""First minor that tries devices in the order of their slices' names."""
ASKED_AGAIN: Final = 30


def may_draw(scenario: JSON, minor: int) -> bool:
    """Return whether another run of that minor may say something else of the scenario, as the minor is shown it."""
    return minor < SLICES_IN_ORDER and any(item["kind"] == "ResourceSlice" for item in scenario["cluster"]["items"])


def answers(judge: Judge, scenario: JSON) -> list[JSON]:
    """Return every distinct answer, each {"expected"} or {"error"}, that the judge gives when asked many times."""
    distinct: list[JSON] = []
    for one in judge.verdicts([scenario] * ASKED_AGAIN):
        answer: JSON = {key: one[key] for key in ("expected", "error") if key in one}
        if answer not in distinct:
            distinct.append(answer)
    return distinct
