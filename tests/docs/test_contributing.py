"""CONTRIBUTING.md leads to what it names: each file exists and contains the name that a reader greps for."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| (\[.*\)[^|]*) \|$", PAGE, re.MULTILINE)

UPSTREAM_NAMES = {
    "SelectVictimsOnNode",
    "PodEligibleToPreemptOthers",
    "pickOneNodeForPreemption",
    "filterPodsWithPDBViolation",
    "findCandidates",
    "DryRunPreemption",
    "RunFilterPlugins",
    "RunScorePlugins",
    "NodeInfo",
    "PreFilterResult",
    "ScheduleOne",
    "FitError",
}


@pytest.mark.parametrize(("name", "links"), ROWS, ids=[name for name, _ in ROWS])
def test_a_link_leads_to_what_it_names(name, links):
    paths = [ROOT / target for target in re.findall(r"\]\(([^)]+)\)", links)]
    assert paths
    assert all(path.exists() for path in paths)
    for word in UPSTREAM_NAMES.intersection(re.split(r"[ ,()]+", name)):
        assert word in paths[0].read_text(encoding="utf-8"), word


def test_every_upstream_name_has_a_row():
    named = {word for name, _ in ROWS for word in re.split(r"[ ,()]+", name)}
    assert named >= UPSTREAM_NAMES
