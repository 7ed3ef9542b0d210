"""Every requirement on reliability and every fault of the fakes has a test among the default ones.

E: never evict wrongly. C: the cluster cache. L: load. H: hostile tenants. A test that covers a requirement has its ID
in its name.
"""

import ast
import re
from pathlib import Path

from tests.conftest import marker_of
from tests.fakes import faults
from tests.property.live_world import FAULTS, SILENT_FAULTS, World

TESTS = Path(__file__).parents[1]
DEFAULT = [path for path in TESTS.rglob("test_*.py") if marker_of(path) is None and path != Path(__file__)]
REQUIREMENTS = {
    *(f"E{number}" for number in range(1, 14)),
    *(f"C{number}" for number in range(1, 16)),
    *(f"L{number}" for number in range(1, 8)),
    *(f"H{number}" for number in range(1, 9)),
}
ONLY_IN_TEST_ALL = {"E13"}
"""The mutation score of the guard: minutes."""
ACTIONS = {"Answer", "CutBody", "CutEvent", "Drop", "ErrorEvent", "Hang"}
NO_FAULTS = {"any", "calm", "change", "delete", "is_stale", "preemptor", "put"}


def requirements_of(path):
    """What the names of its tests say that they cover. Most tests name none: those modules are not even parsed."""
    text = path.read_text(encoding="utf-8")
    names = ast.walk(ast.parse(text)) if re.search(r"\bdef test_\w*[ECLH]\d", text) else ()
    return {
        one
        for node in names
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        for one in re.findall(r"_([ECLH]\d+)(?=_)", node.name)
    }


def test_every_requirement_has_a_default_test():
    by_module = {path: requirements_of(path) for path in TESTS.rglob("test_*.py")}
    assert set().union(*(by_module[path] for path in DEFAULT)) >= REQUIREMENTS - ONLY_IN_TEST_ALL
    assert set().union(*by_module.values()) == REQUIREMENTS


def test_every_fault_of_the_fakes_is_injected_by_a_default_test():
    assert {name for name in ACTIONS if hasattr(faults, name)} == ACTIONS
    used = [path for path in TESTS.rglob("*.py") if marker_of(path) is None and path.parent.name != "fakes"]
    texts = [path.read_text(encoding="utf-8") for path in used if path != Path(__file__)]
    assert not {name for name in ACTIONS if not any(f"{name}(" in text for text in texts)}


def test_every_fault_of_a_schedule_is_in_its_tables():
    methods = {name for name, one in vars(World).items() if callable(one) and not name.startswith("_")}
    assert {fault.__name__ for fault in FAULTS | SILENT_FAULTS} == methods - NO_FAULTS


def test_every_property_runs_in_the_default_profile():
    """None is left for another profile: each number of examples is at least one."""
    numbers = [found for path in DEFAULT for found in re.findall(r"(?:examples|seeds)\((\d+),", path.read_text())]
    assert len(numbers) >= 25
    assert all(int(number) > 0 for number in numbers)
    assert not [path for path in DEFAULT if "in_long" in path.read_text(encoding="utf-8")]
