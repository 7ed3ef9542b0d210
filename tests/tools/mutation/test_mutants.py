"""E13, of a sample; and that the mistakes that are tried are those that are meant."""

import re
import subprocess
import sys
from textwrap import dedent

import pytest

from tests.tools.mutation.operators import mutants
from tests.tools.mutation.runner import ROOT


def score(*options):
    """(what is printed, share of mutants killed); no mutant survives that is not known to be equivalent."""
    command = [sys.executable, "-m", "tests.tools.mutation", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = re.findall(r"^mutation score of the guard: (\d+) of (\d+) killed", done.stdout, re.MULTILINE)
    killed, count = map(int, found)
    return done.stdout, killed / count


def test_E13_the_tests_of_the_guard_notice_90_percent_of_small_mistakes_of_a_sample():
    """Every 41st of about 500."""
    printed, share = score("--every", "41")
    assert share >= 0.90, printed


@pytest.mark.slow
def test_E13_the_tests_of_the_guard_notice_90_percent_of_all_small_mistakes():
    printed, share = score()
    assert share >= 0.90, printed


# --- the mistakes -----------------------------------------------------------------------------------------------------


def changes(path, source):
    """What is there instead, of every mutant."""
    path.write_text(dedent(source), encoding="utf-8")
    return [one.id.partition("  ->  ")[2] for one in mutants("made.up", path)]


MISTAKES = {
    "1: a comparison": ("a < b", ["a <= b", "a >= b"]),
    "2: a comparison with two bounds": (
        "0 <= a < n",
        ["0 < a < n", "0 > a < n", "0 <= a <= n", "0 <= a >= n", "a < n", "0 <= a", "1 <= a < n", "-1 <= a < n"],
    ),
    "3: a condition": ("a and b", ["a or b", "b", "a"]),
    "4: a negation": ("not a", ["a"]),
    "5: an operator": ("a - b", ["a + b"]),
    "6: a set operator": ("a & b", ["a | b"]),
    "7: a number": ("f(7)", ["f(8)", "f(6)"]),
    "8: a truth": ("f(True)", ["f(False)"]),
    "9: a text": ("f('a')", ["f('a~')"]),
    "10: either": ("a if b else c", ["a", "c"]),
    "11: any": ("any(a)", ["all(a)"]),
    "12: the lesser": ("min(a, b)", ["max(a, b)", "a", "b"]),
    "13: an order": ("sorted(a)", ["list(a)"]),
    "14: a keyword": ("f(key=a)", ["f()"]),
    "15: a part": ("a[b:c]", ["a[:c]", "a[b:]"]),
    "16: who is meant": ("[a for a in b if c]", ["[a for a in b]"]),
    "17: a function without a name": ("lambda: a", ["lambda: None"]),
    "18: a table": ("(a, b)", ["x = (b,)", "x = (a,)", "x = (b, a)"]),
    "19: a mapping": ("{a: b, c: d}", ["{c: d}", "{a: b}"]),
}  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), MISTAKES.values(), ids=MISTAKES.keys())
def test_what_may_be_wrong_with_an_expression(tmp_path, right, wrong):
    assert changes(tmp_path / "up.py", f"x = {right}") == [one if one[:1] == "x" else f"x = {one}" for one in wrong]


STATEMENTS = {
    "1: what is returned": ("def f(): return a", ["return None"]),
    "2: a condition": ("if a: f()", ["if True:", "if False:", "pass"]),
    "3: a statement": ("def f():\n    a()\n    raise E", ["pass", "pass"]),
    "4: a loop": ("for a in b: continue", ["pass"]),
    "5: a sum": ("a += b", ["pass", "a -= b", "a = b"]),
    "6: a default": ("def f(a=()): pass", ["def f(a=None):"]),
    "7: a decorator": ("@known(at_most=4)\ndef f(): pass", [
        "@known() def f():", "@known(at_most=5) def f():", "@known(at_most=3) def f():", "def f():"
    ]),
    "8: nothing of what only tells": (
        '"""Text."""\nimport a\n@dataclass(frozen=True)\nclass A:\n    """Text."""\n    b: "int"\n    """Text."""', []
    ),
    "9: nothing of what makes a property": ("class A:\n    @property\n    def b(self) -> 'int': f()", ["pass"]),
}  # fmt: skip


@pytest.mark.parametrize(("right", "wrong"), STATEMENTS.values(), ids=STATEMENTS.keys())
def test_what_may_be_wrong_with_a_statement(tmp_path, right, wrong):
    assert sorted(changes(tmp_path / "up.py", right)) == sorted(wrong)


def test_a_mutant_is_the_module_with_its_one_mistake(tmp_path):
    """And the next one has that mistake no more."""
    (tmp_path / "up.py").write_text("x = 1\ny = 1 if x else 2", encoding="utf-8")
    found = []
    for one in mutants("made.up", tmp_path / "up.py"):
        names: dict[str, int] = {}
        exec(one.code(), names)
        found.append((names["x"], names["y"]))
    assert found == [(2, 1), (0, 2), (1, 1), (1, 2), (1, 2), (1, 0), (1, 1), (1, 1)]


def test_mutants_of_the_same_text_in_the_same_place_have_names_of_their_own(tmp_path):
    (tmp_path / "up.py").write_text("def f():\n    a()\n    a()", encoding="utf-8")
    names = [one.id for one in mutants("made.up", tmp_path / "up.py")]
    assert names == ["up.f: a()  ->  pass", "up.f: a()  ->  pass (2)"]
