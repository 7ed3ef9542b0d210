"""The comparison of selectors' answers with those of another program, for which a small one stands in here."""

import json
import sys

import pytest

from tests.k8s.cel.answers import answer
from tests.upstream import cel_fuzz
from tests.upstream.generate.expressions import selector
from tests.upstream.judge import ProgramFailed

PROGRAM = f"""#!{sys.executable} -IS
import json, sys, time

if "-version" in sys.argv:
    print("1.36.9")
    sys.exit()
for number, line in enumerate(sys.stdin):
    text = json.loads(line)["expression"]
    if "hangs" in text:
        time.sleep(600)
    if "dies" in text:
        sys.exit("stand-in: died")
    if "crash" in text:
        print(json.dumps({{"crash": True}}))
    elif "varies" in text:
        print(json.dumps({{"answer": ("true", "false")[number % 2]}}))
    elif "size(" in text:
        print(json.dumps({{"answer": "CEL runtime error: no sizes here"}}))
    else:
        print(json.dumps({{"answer": "true"}}))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program to which everything is true but what it does not like."""
    path = tmp_path_factory.mktemp("program") / "stand-in"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def asked(*expressions):
    return [{"expression": each} for each in expressions]


def test_agreement_crashes_and_features_are_counted_apart(program):
    result = cel_fuzz.compare(program, 36, asked("1 == 1", "'crash' == ''", "isIP('a')", "2 == 2", "'varies' == ''"))
    assert (result.compared, result.crashes, result.undetermined, result.different) == (5, 1, 1, [])
    assert result.not_followed == {"isIP()": 1}


def test_a_difference_has_both_answers(program):
    result = cel_fuzz.compare(program, 36, asked("size('a') == 1"))
    assert result.different == [({"expression": "size('a') == 1"}, "CEL runtime error: no sizes here", "true")]


def test_a_program_that_ends_early_is_an_error_without_the_expressions(program):
    with pytest.raises(ProgramFailed, match="stand-in ended with code 1: 2 selectors: stand-in: died"):
        cel_fuzz.compare(program, 36, asked("1 == 1", "'dies' == ''"))


def test_a_program_that_hangs_is_stopped(program, monkeypatch):
    monkeypatch.setattr(cel_fuzz, "SECONDS_PER_BATCH", 0.3)
    with pytest.raises(ProgramFailed, match=r"stand-in did not end within 0\.3 s: 1 selectors"):
        cel_fuzz.compare(program, 36, asked("'hangs' == ''"))


def test_shrinking_asks_no_more_than_it_may():
    tried = []

    def differ(selectors):
        tried.extend(selectors)
        return 0

    large = asked("[1, 2, 3, 4].exists(x, x == 1 && x == 2)")[0]
    assert cel_fuzz.shrink(large, differ, asks=0) == large
    assert cel_fuzz.shrink(large, differ, seconds=0) == large
    assert not tried
    cel_fuzz.shrink(large, differ, asks=30)
    assert len(tried) <= 30


def test_the_original_is_a_row_where_the_small_one_does_not_differ_any_more(program, monkeypatch):
    result = cel_fuzz.compare(program, 36, asked("size('a') == 1"))
    monkeypatch.setattr(cel_fuzz, "shrink", lambda given, _differ: given | {"expression": "1 == 1"})
    first, *_ = cel_fuzz.report(program, 36, result)
    assert first.startswith("differs: ")
    assert "size('a')" in first


def test_the_first_difference_is_made_small_and_is_a_row_to_keep(program):
    large = "[1, 2].exists(x, x == 1) && (device.driver == 'a' || (size('abc' + 'd') == 4 ? true : false))"
    result = cel_fuzz.compare(program, 36, [{"expression": large, "device": {"name": "d1"}, "driver": "d"}])
    first, here, *_, last = cel_fuzz.report(program, 36, result)
    small, wanted = json.loads(first.removeprefix("differs, made small: "))
    assert "size(" in small
    assert len(small) < 20
    assert wanted == "CEL runtime error: no sizes here"
    assert json.loads(here.split(": ", 1)[1]) in ("true", "false")
    assert last == "1 expressions, 1 differ, 0 not followed, 0 crashes"


def test_what_is_tried_while_shrinking_is_shorter_and_has_each_bracket_closed():
    smaller = cel_fuzz._smaller('f(a, [1, 2], "x)y")')
    assert all(len(each) < 19 for each in smaller)
    assert {"a", "[1, 2]", "1, 2", '"x)y"', "f", 'a, [1, 2], "x)y"'} <= set(smaller)
    assert "f(a, [1" not in smaller


@pytest.mark.parametrize(("wanted", "different"), [("true", 0), ("false", 1)])
def test_the_command_says_what_differs_and_ends_with_1(program, capsys, wanted, different):
    seed = next(each for each in map(str, range(100)) if answer(**selector(each, 0)) == wanted)
    code = cel_fuzz.main(["--cel", str(program), "--minor", "36", "--expressions", "1", "--seed", seed])
    assert code == different
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"1 expressions, {different} differ, 0 not followed, 0 crashes"


@pytest.mark.parametrize(
    ("name", "minor", "error"),
    [("stand-in", "37", "is of 1.36.9, not of 1.37"), ("none", "36", "none cannot be run: ")],
)
def test_a_program_of_another_minor_and_none_are_refused(name, minor, error, program, capsys):
    assert cel_fuzz.main(["--cel", str(program.with_name(name)), "--minor", minor]) == 2
    assert error in capsys.readouterr().err
