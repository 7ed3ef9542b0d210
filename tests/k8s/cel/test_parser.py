"""Expressions become the trees that cel-go's become; what is none is refused at its place, in words of our own."""

import pytest

from extender.k8s.cel.parser import parse
from extender.k8s.cel.syntax import SyntaxFailure
from extender.k8s.cel.values import Uint, UnsupportedFeature
from extender.k8s.devices.selector import compile_selector


def shown(node):
    """Return a tree in one line: calls as f(…), fields and members on what they are of."""
    if node.kind in ("literal", "ident"):
        return node.name or repr(node.value)
    if node.kind == "select":
        return f"{shown(node.operand)}.{node.name}{'?' if node.test_only else ''}"
    if node.kind == "loop":
        loop = node.loop
        parts = ", ".join(map(shown, node.args))
        return f"loop({loop.variable}, {loop.variable2}, {loop.result_variable}: {parts})"
    target = f"{shown(node.operand)}." if node.operand is not None else ""
    marks = f" {node.optional}" if node.optional else ""
    return f"{target}{node.name or node.kind}({', '.join(map(shown, node.args))}{marks})"


def tree_of(expression):
    tree = parse(expression, escaped_names=True)
    assert tree.problems == []
    return shown(tree.root)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("a < b == c in d", "@in(_==_(_<_(a, b), c), d)"),
        ("a || b && c || d", "_||_(_||_(a, _&&_(b, c)), d)"),
        ("a && b && c && d && e", "_&&_(_&&_(_&&_(a, b), c), _&&_(d, e))"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("{a ? b : c : d}", "map(_?_:_(a, b, c), d)"),
        ("!a.b[c]", "!_(_[_](a.b, c))"),
        ("!!a", "a"),
        ("---a", "-_(a)"),
        ("-1.f()", "-1.f()"),
        ("--1", "1"),
        ("!-1", "!_(-1)"),
        ("a - -1", "_-_(a, -1)"),
        ("a.?b[?c]", "_[?_](_?._(a, 'b'), c)"),
        ("[a, ?b, c,]", "list(a, b, c [1])"),
        ("{a: b, ?c: d,}", "map(a, b, c, d [1])"),
        ("[[,], {,}, f()]", "list(list(), map(), f())"),
        (".a.b{c: 1, ?`d-e`: 2,}.f", ".a.b().f"),
        (".f(a).in_(b)", ".f(a).in_(b)"),
        ("a.`b-c/d. e`", "a.b-c/d. e"),
        ("a // || b\n|| c", "_||_(a, c)"),
    ],
)
def test_operators_bind_as_in_cel_go(expression, wanted):
    assert tree_of(expression) == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808", -(1 << 63)),
        ("-0x8000000000000000", -(1 << 63)),
        ("0x1F", 31),
        ("000000000000000000000000000000000000000007", 7),
        ("18446744073709551615u", Uint((1 << 64) - 1)),
        ("0xfU", Uint(15)),
        (".5e1", 5.0),
        ("1e-400", 0.0),
        (r'"\a\x41\u00e9\U0001F600\101\?\`"', "\aA\u00e9\U0001f600A?`"),
        (r"r'\n\'", "\\n\\"),
        ("'''a'b''c\r\nd\re'''", "a'b''c\nd\ne"),
        ('R"""a\\"b"""', 'a\\"b'),
        (r"b'\xff\377é'", b"\xff\xff\xc3\xa9"),
        (r'bR"\x"', rb"\x"),
        ("null", None),
    ],
)
def test_literals(text, value):
    root = parse(text, escaped_names=True).root
    assert (root.kind, root.value, type(root.value)) == ("literal", value, type(value))


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("has(a.b)", "a.b?"),
        (".has(a.b)", ".has(a.b)"),
        ("a.map(x, y, z)", "loop(x, , @result: a, list(), True, _?_:_(y, _+_(@result, list(z)), @result), @result)"),
        ("a.filter(x, y)", "loop(x, , @result: a, list(), True, _?_:_(y, _+_(@result, list(x)), @result), @result)"),
        ("cel.bind(x, a, b)", "loop(#unused, , x: list(), a, False, x, b)"),
        ("d.bind(x, a, b)", "d.bind(x, a, b)"),
        (
            "a.optFlatMap(x, b)",
            "_?_:_(a.hasValue(), loop(#unused, , x: list(), a.value(), False, x, b), optional.none())",
        ),
        ("a.existsOne(x, b)", "a.existsOne(x, b)"),
        ("a.exists(x, b, c, d)", "a.exists(x, b, c, d)"),
    ],
)
def test_macros_are_expanded_by_name_and_number_of_arguments(expression, wanted):
    assert tree_of(expression) == wanted


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "1:1: Syntax error: found the end, expected a value"),
        ("a +", "1:4: Syntax error: found the end, expected a value"),
        ("(a]", "1:3: Syntax error: found ']', expected an operator"),
        ("a ? b ? c : d : e", "1:7: Syntax error: found '?', expected :"),
        ("a\n  b", "2:3: Syntax error: found 'b', expected an operator"),
        ("é.a", "1:1: Syntax error: found what begins with 'é', expected a value"),
        ("'a\\8'", '1:1: Syntax error: found what begins with "\'", expected a value'),
        ("f(a,)", "1:5: Syntax error: found ')', expected a value"),
        ("[,a]", "1:3: Syntax error: found 'a', expected ]"),
        ("a.in", "1:3: Syntax error: found 'in', expected a name"),
        ("-!a", "1:2: Syntax error: found '!', expected a value"),
        ("!-a", "1:2: Syntax error: found '-', expected a value"),
        ("{a}", "1:3: Syntax error: found '}', expected an operator"),
        ("(a.b){}", "1:6: Syntax error: found '{', expected an operator"),
        ("a.`b`()", "1:6: Syntax error: found '(', expected an operator"),
        ("if + a", "1:1: reserved identifier: if"),
        ("9223372036854775808", "1:1: invalid int literal"),
        ("-1e400", "1:1: invalid double literal"),
        (r'"\ud800"', "1:1: invalid unicode code point"),
        (r'b"\u00e9"', "1:1: unable to unescape string"),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_column(expression, problem):
    error = compile_selector(expression, of_1_37=True).error
    assert error.startswith(f"compilation failed: ERROR: <input>:{problem}")


def test_names_in_backquotes_are_fields_from_1_37_on():
    expression = 'device.attributes["d"].`a-b` == 1'
    assert compile_selector(expression, of_1_37=True).error == ""
    assert ":24: unsupported syntax: '`'\n" in compile_selector(expression, of_1_37=False).error
    assert compile_selector('device.driver == "`"', of_1_37=False).error == ""


BRACKETS = [("(", ")", 249), ("f(", ")", 249), ("a[", "]", 249), ("[", "]", 249), ("{1: ", "}", 249)]
OPERANDS = [("1 < (", ")", 124), ("1 + (", ")", 124), ("1 + 1 * (", ")", 83), ("a ? b : ", "", 249)]


@pytest.mark.parametrize(("before", "after", "levels"), [*BRACKETS, *OPERANDS])
def test_brackets_are_followed_as_deep_as_cel_go_follows_them(before, after, levels):
    too_deep = before * (levels + 1) + "1" + after * (levels + 1)
    with pytest.raises(SyntaxFailure, match="<input>:-1:0: expression recursion limit exceeded: 250"):
        parse(too_deep, escaped_names=True)
    wrong = before * levels + "*"
    assert "found '*', expected a value" in parse(wrong, escaped_names=True).problems[0][1]


def test_a_chain_is_followed_as_far_as_cel_go_follows_it():
    with pytest.raises(SyntaxFailure, match="max recursion depth exceeded"):
        parse("a" + ".b" * 251, escaped_names=True)
    with pytest.raises(UnsupportedFeature):
        parse("a" + ".b" * 250, escaped_names=True)
    assert len(tree_of("a" + ".b" * 80)) == 161


def test_what_opt_map_doubles_again_and_again_is_not_followed():
    with pytest.raises(UnsupportedFeature, match="more than 982 nodes"):
        parse("a" + ".optMap(x, x)" * 30, escaped_names=True)


@pytest.mark.slow
def test_a_tree_has_nodes_by_the_text_that_is_charged():
    assert len(parse("optional.of(1)" + ".optMap(x,x)" * 4, escaped_names=True).positions) == 202
    selector = compile_selector("optional.of(1)" + ".optMap(x,x)" * 11 + ".hasValue()", of_1_37=True)
    assert selector.unsupported == "an expression of more than 514 nodes"


@pytest.mark.parametrize("call", [".sortBy(x,x)", ".all(x,x)", ".all(x,y,x)", ".map(x,x,x)", ".transformMap(x,y,x,x)"])
def test_other_macros_in_a_chain_have_nodes_enough(call):
    text = "+".join([f"[]{call * 12}"] * 50)
    assert len(parse(text, escaped_names=True).positions) < 1.5 * len(text)
