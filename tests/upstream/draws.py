"""Answers of a kube-scheduler that draws.

A Go map's order decides, up to 1.35, in which order devices are tried, and which one of several CSIStorageCapacities
of a class is scored. The judge asks upstream twice until both runs agree, so that a rare draw shows only in many
verdicts.
"""

from typing import Any, Final

from tests.upstream.judge import Judge

JSON = dict[str, Any]

SLICES_IN_ORDER: Final = 36
"""First minor that tries devices in the order of their slices' names."""
ASKED_AGAIN: Final = 30


def may_draw(scenario: JSON, minor: int) -> bool:
    """Return whether another run of that minor may say something else of the scenario, as the minor is shown it."""
    items = scenario["cluster"]["items"]
    classes = [item["storageClassName"] for item in items if item["kind"] == "CSIStorageCapacity"]
    if len(classes) > len({*classes}):
        return True
    return minor < SLICES_IN_ORDER and any(item["kind"] == "ResourceSlice" for item in items)


def answers(judge: Judge, scenario: JSON) -> list[JSON]:
    """Return every distinct answer, each {"expected"} or {"error"}, that the judge gives when asked many times."""
    distinct: list[JSON] = []
    for one in judge.verdicts([scenario] * ASKED_AGAIN):
        answer: JSON = {key: one[key] for key in ("expected", "error") if key in one}
        if answer not in distinct:
            distinct.append(answer)
    return distinct
