"""Every requirement on reliability and every fault of the fakes has a test among the default ones.

E: never evict wrongly. C: the cluster cache. L: load. H: hostile tenants. A test that covers a requirement has its ID
in its name.
"""

import ast
import re
from pathlib import Path

import pytest

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
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
ACTIONS = {"Answer", "CutBody", "CutEvent", "Drop", "ErrorEvent", "Hang"}
NO_FAULTS = {"any", "calm", "change", "delete", "is_stale", "preemptor", "put"}


TEST = re.compile(r"^((?: *@.*\n(?:(?! *(?:@|def |async )).*\n)*)*) *(?:async )?def (test_\w+)", re.MULTILINE)
"""A test: its decorators, and its name."""


def requirements_of(path, *, by_default):
    """Return the IDs in the names of the module's tests; with `by_default`, only of those that are not slow."""
    text = path.read_text(encoding="utf-8")
    tests = TEST.findall(text) if re.search(r"\bdef test_\w*[ECLH]\d", text) else ()
    return {
        one
        for decorators, name in tests
        if not by_default or "@pytest.mark.slow" not in decorators
        for one in re.findall(r"_([ECLH]\d+)(?=_)", name)
    }


def test_every_requirement_has_a_default_test():
    found = set().union(*(requirements_of(path, by_default=True) for path in DEFAULT))
    assert found >= REQUIREMENTS - ONLY_IN_TEST_ALL
    assert set().union(*(requirements_of(path, by_default=False) for path in TESTS.rglob("test_*.py"))) == REQUIREMENTS


@pytest.mark.parametrize(("marker", "expected"), [("slow", set()), ("parametrize('a', [1])", {"E1"})])
def test_a_slow_test_does_not_cover_a_requirement_by_default(tmp_path, marker, expected):
    module = tmp_path / "test_module.py"
    module.write_text(f"@fixture\n@pytest.mark.{marker}\n@other(\n    1,\n)\nasync def test_E1_holds():\n    pass\n")
    assert requirements_of(module, by_default=True) == expected
    assert requirements_of(module, by_default=False) == {"E1"}


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


def test_every_property_says_what_does_not_hold():
    """Each test of random cases, or a function of its module that it calls, has an assertion with a message."""
    silent = []
    for path in DEFAULT:
        text = path.read_text(encoding="utf-8")
        if "@given(" in text or "seeds)" in text:
            defined = {one.name: one for one in ast.walk(ast.parse(text)) if isinstance(one, FUNCTION)}
            tests = [one for one in defined.values() if is_property(one)]
            silent += [f"{path.name}: {one.name}" for one in tests if not has_message(one, defined)]
    assert silent == []


def is_property(function):
    decorators = [ast.unparse(one.func) for one in function.decorator_list if isinstance(one, ast.Call)]
    is_test = function.name.startswith("test_") and "seeds" in [one.arg for one in function.args.args]
    return "given" in decorators or is_test


def has_message(function, defined):
    calls = [one.func for one in ast.walk(function) if isinstance(one, ast.Call)]
    names = {ast.unparse(one).rpartition(".")[2] for one in calls}
    if "raises" in names or any(isinstance(one, ast.Assert) and one.msg for one in ast.walk(function)):
        return True
    names &= defined.keys() - {function.name}
    return any(has_message(defined[name], {key: one for key, one in defined.items() if key != name}) for name in names)
