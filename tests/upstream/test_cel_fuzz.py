"""The comparison of selectors' answers with those of another program, for which a small one stands in here."""

import json
import sys

import pytest

from tests.k8s.devices.cel.answers import answer
from tests.upstream import cel_fuzz
from tests.upstream.generate.expressions import selector

PROGRAM = f"""#!{sys.executable} -IS
import json, sys

if "-version" in sys.argv:
    print("1.36.9")
    sys.exit()
for number, line in enumerate(sys.stdin):
    text = json.loads(line)["expression"]
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
    result = cel_fuzz.compare(program, asked("1 == 1", "'crash' == ''", "isIP('a')", "2 == 2", "'varies' == ''"))
    assert (result.compared, result.crashes, result.undetermined, result.different) == (5, 1, 1, [])
    assert result.not_followed == {"isIP()": 1}


def test_a_difference_has_both_answers(program):
    result = cel_fuzz.compare(program, asked("size('a') == 1"))
    assert result.different == [({"expression": "size('a') == 1"}, "CEL runtime error: no sizes here", "true")]


def test_a_program_that_ends_early_is_an_error_without_the_expressions(program):
    with pytest.raises(cel_fuzz.ProgramError, match="stand-in ended with 1 after 1 answers: stand-in: died"):
        cel_fuzz.compare(program, asked("1 == 1", "'dies' == ''"))


def test_the_first_difference_is_made_small_and_is_a_row_to_keep(program):
    large = "[1, 2].exists(x, x == 1) && (device.driver == 'a' || (size('abc' + 'd') == 4 ? true : false))"
    result = cel_fuzz.compare(program, [{"expression": large, "device": {"name": "d1"}, "driver": "d"}])
    first, here, *_, last = cel_fuzz.report(program, result)
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


def test_a_program_of_another_minor_is_refused(program, capsys):
    with pytest.raises(SystemExit):
        cel_fuzz.main(["--cel", str(program), "--minor", "37"])
    assert "is of Kubernetes 1.36.9, not 1.37" in capsys.readouterr().err
