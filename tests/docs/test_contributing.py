"""CONTRIBUTING.md leads to what it names: each file exists and has the name that a reader greps for."""

import ast
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

WHERE = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.partition("### Where is …")[2].partition("\n## ")[0], re.MULTILINE
)[1:]
LINK_AND_NAMES = re.compile(r"\]\(([^)]+)\) ((?:`[^`]+`(?:, )?)+)")


def names_in(body, prefix=""):
    """Names that a module or class defines, those of a class as `Class.name`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from names_in(node.body, f"{prefix}{node.name}.")
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        yield from (prefix + one.id for one in targets if isinstance(one, ast.Name))


@pytest.mark.parametrize(("question", "answer"), WHERE, ids=[question for question, _ in WHERE])
def test_where_a_thing_is(question, answer):
    found = LINK_AND_NAMES.findall(answer)
    assert len(found) == answer.count("](") > 0, "a link without a name behind it"
    for path, names in found:
        defined = set(names_in(ast.parse((ROOT / path).read_text(encoding="utf-8")).body))
        missing = set(re.findall(r"`([^`]+)`", names)) - defined
        assert not missing, f"{path} does not define {missing}: say where {question} is now"


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


def test_the_page_says_where_what_is_looked_for_most_often_is():
    assert len(WHERE) >= 7
