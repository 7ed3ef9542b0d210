"""H7: YAML is read as kubectl reads it, without recursion and within limits."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.utilities import yaml_reader
from extender.utilities.yaml_reader import (
    MAX_DEPTH,
    MAX_SCALAR_BYTES,
    LimitError,
    YAMLError,
    kubernetes_scalar,
    read_document,
    read_documents,
)

KUBECTL = [json.loads(line) for line in Path(__file__).with_name("kubectl-yaml.jsonl").read_text().splitlines()]
"""Texts, and the documents that kubectl's decoder (NewYAMLOrJSONDecoder of k8s.io/apimachinery v0.37.2, with
sigs.k8s.io/yaml v1.6.0 and go.yaml.in/yaml/v2 v2.4.4) makes of them, or why it refuses them: asked on 2026-11-28."""

DIVERGENT: dict[str, Any] = {
    "a: !!int 1.0": [{"a": 1}],
    "a: !!timestamp x": [{"a": "x"}],
    ".inf: x": ".inf is not a number in JSON",
    ".nan: x": ".nan is not a number in JSON",
    "18446744073709551615: x": [{"18446744073709551615": "x"}],
    "9223372036854775808: x": [{"9223372036854775808": "x"}],
    "a: 1\n...\nb: 2": "did not find expected <document start> at line 3",
    "--- {a: 1}\n": [{"a": 1}],
    "--- null": [],
    "a: 1\n--- {b: 1}\n": [{"a": 1}, {"b": 1}],
    "%YAML 1.1\n---\na: 1": [{"a": 1}],
    "%YAML 1.2\n---\na: 1\n": [{"a": 1}],
    "%TAG ! x\n---\na: 1": [{"a": 1}],
    '# c\n{"a": 1}{"b": 1}': "did not find expected <document start> at line 2",
    'a: "\\/"': [{"a": "/"}],
    " a: 1\nb: 2": "did not find expected <document start> at line 2",
}
"""What is read otherwise, as the docstring of the module says."""


@pytest.mark.parametrize("row", KUBECTL, ids=[repr(row["text"]) for row in KUBECTL])
def test_a_text_is_read_as_kubectl_reads_it(row):
    expected = DIVERGENT.get(row["text"], row.get("documents"))
    if isinstance(expected, list):
        found = [one for one in read_documents(row["text"].encode()) if one is not None]
        assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)
        return
    with pytest.raises(YAMLError, match=re.escape(expected) if expected else None):
        list(read_documents(row["text"].encode()))


# PyYAML writes "y", "1e3" and the like without quotation marks: kubectl reads a boolean or number. The line breaks of
# Unicode are not read again by PyYAML itself.
TEXTS = st.text(
    st.characters(exclude_characters="\x85\u2028\u2029\ufeff", exclude_categories=["Cs"]), max_size=6
).filter(lambda text: isinstance(kubernetes_scalar(text), str))
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | TEXTS
    | st.sampled_from(["<<", "1", "010", "1:30", "on", "true", "~", "a: b"])
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(VALUES, st.booleans(), st.booleans())
def test_what_pyyaml_writes_is_read_again(value, flow, twice):
    written = [value, value] if twice else value
    text = yaml.safe_dump(written, default_flow_style=flow, allow_unicode=True)
    assert list(read_documents(text.encode())) == [written], f"not read again: {text!r}"


def test_an_alias_is_the_very_value_that_its_anchor_names():
    [[first, second]] = read_documents(b"[&a {b: 1}, *a]")
    assert first is second


LAUGHS = b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 9)
)
MERGES = b"a0: &a0 {k: v}\n" + b"".join(
    b"a%d: &a%d {<<: [%s]}\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 9)
)
LONG_ALIASES = b"a: &a " + b"x" * 64_000 + b"\nb: [" + b"*a, " * 1001 + b"]"

BEYOND_A_LIMIT = {
    "brackets": (b"a:\n  " + b"[" * 25_000, "is nested deeper than 100 levels", 2),
    "braces": (b"{a: " * 25_000, "is nested deeper than 100 levels", 1),
    "dashes": (b"- " * 25_000, "is nested deeper than 100 levels", 1),
    "indentation": (b"".join(b" " * depth + b"a:\n" for depth in range(200)), "is nested deeper than 100 levels", 101),
    "keys that are mappings": (b"? " * 25_000, "is nested deeper than 100 levels", 1),
    "aliases": (LAUGHS, "its aliases expand to more than 1,000,000 values", 6),
    "merge keys": (MERGES, "its aliases expand to more than 1,000,000 values", 7),
    "aliases of a long scalar": (LONG_ALIASES, "its aliases expand to more than 1,000,000 values", 2),
    "a plain scalar": (b"a: 1\nb: " + b"x" * 4_000_000, "a scalar or comment is longer than 3 MiB", 2),
    "a quoted scalar": (b"a: 1\nb: '" + b"x" * 4_000_000, "a scalar or comment is longer than 3 MiB", 2),
    "a comment": (b"a: 1\n#" + b"x" * 4_000_000 + b"\nb: 2", "a scalar or comment is longer than 3 MiB", 1),
    "an anchor": (b"a: &" + b"x" * 4_000_000 + b" 1", "a scalar or comment is longer than 3 MiB", 1),
    "tag directives": (
        b"".join(b"%%TAG !%d! x\n" % one for one in range(101)) + b"--- a",
        "has more than 100 %TAG",
        None,
    ),
}


@pytest.mark.parametrize(("data", "problem", "line"), BEYOND_A_LIMIT.values(), ids=BEYOND_A_LIMIT)
def test_H7_a_file_is_refused_with_its_line_for_too_much_of(data, problem, line):
    with pytest.raises(LimitError) as caught:
        list(read_documents(data))
    assert str(caught.value).startswith(problem)
    assert caught.value.line == line


def test_H7_the_nodes_of_a_file_are_limited(monkeypatch):
    monkeypatch.setattr(yaml_reader, "MAX_NODES", 1000)
    with pytest.raises(LimitError, match="has more than 1,000 values"):
        list(read_documents(b"[" + b"[]," * 1001 + b"]"))


def test_H7_what_is_just_within_the_limits_is_read():
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    long = b"x" * (MAX_SCALAR_BYTES - 100_000)
    repeated = b"- &a [" + b"x," * 998 + b"]\n" + b"- *a\n" * 1000
    assert len(list(read_documents(b"\n---\n".join((deep, long, b"9" * 4000, repeated))))) == 4


NOT_YAML = {
    "an alias of itself": (b"a: &a [*a]", "found unconstructable recursive node"),
    "an alias of what surrounds it": (b"[&a 1, &a {b: [*a]}]", "found unconstructable recursive node"),
    "an alias of nothing": (b"a: *b", "found undefined alias"),
    "an alias of another document": (b"--- &a 1\n--- *a", "found undefined alias"),
    "a mapping as a key": (b"{a: 1}: b", "a key must be a string"),
    "an alias of a list as a key": (b"- &a []\n- *a : 1", "a key must be a string"),
    "a scalar to merge": (b"<<: 5", "<< must name a mapping, or a list of mappings"),
    "a list of scalars to merge": (b"<<: [5]", "<< must name a mapping, or a list of mappings"),
    "a tag that does not fit": (b"!!int x", "'x' is not a !!int"),
    "a number that JSON lacks": (b"a: -.Inf", "-.Inf is not a number in JSON at line 1"),
    "null as a key": (b"~: a", "a key must be a string"),
    "a NUL byte": (b"a: \0", "control characters are not allowed"),
    "text that is not UTF-8": (b"a: \xff", "invalid leading UTF-8 octet"),
}


@pytest.mark.parametrize(("data", "problem"), NOT_YAML.values(), ids=NOT_YAML)
def test_H7_a_file_is_refused_that_holds(data, problem):
    with pytest.raises(YAMLError) as caught:
        list(read_documents(data))
    assert not isinstance(caught.value, LimitError)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 200


# --- configurations -------------------------------------------------------------------------------------------------


def resolve(text):
    return f"={text}" if text else None


@pytest.mark.parametrize("text", ["a: " + "[" * 25_000, LAUGHS.decode()])
def test_H7_a_configuration_is_read_within_limits(text):
    with pytest.raises(LimitError, match=r"is nested deeper|its aliases expand to more than 10,000 values"):
        read_document(text, resolve)


def test_a_configuration_may_end_with_a_separator_and_json_may_have_tabs():
    for text in ("a: 1\n---\n", "---\na: 1\n---\n# end\n---\n...\n", '{\n\t"a":\t1\n}\n'):
        assert read_document(text, resolve)[0] == {"a": "=1"}
    with pytest.raises(LimitError, match="contains more than one document at line 2"):
        read_document("a: 1\n---\nb: 1", resolve)
    with pytest.raises(YAMLError, match="cannot start any token at line 2"):
        read_document("a:\n\tb: x", resolve)


def test_the_values_of_a_configuration_have_lines():
    text = "a: 1\nb: &x\n- c: [2]\n  d: 3\n- 4\ne: *x\nf: {<<: {g: 5}}"
    value, lines = read_document(text, resolve)
    inner = [{"c": ["=2"], "d": "=3"}, "=4"]
    assert value == {"a": "=1", "b": inner, "e": inner, "f": {"g": "=5"}}
    found = {".".join(map(str, path)): line for path, line in lines.items() if all(type(x) in (str, int) for x in path)}
    assert found == {
        "a": 1, "b": 2, "b.0": 3, "b.0.c": 3, "b.0.c.0": 3, "b.0.d": 4, "b.1": 5, "e": 6, "f": 7, "f.g": 7
    }  # fmt: skip
    assert read_document("", resolve) == (None, {})


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: 1\n<<: {a: 2}", "<<: {a: 1}\na: 2", "b: 1\n<<: [{a: 1}, {a: 1}]"])
def test_a_configuration_has_each_key_once(text):
    with pytest.raises(YAMLError, match="duplicate key 'a' at line 2"):
        read_document(text, resolve)


def test_keys_of_a_configuration_are_text():
    assert read_document("1: a\ntrue: b\n~: c", resolve)[0] == {"1": "=a", "true": "=b", "~": "=c"}


@pytest.mark.parametrize("text", ["!!binary a", "!!binary é", "!!int x", "!!float .inf", "!!bool x", "!!null x"])
def test_a_scalar_that_is_not_what_its_tag_says_is_refused_with_its_line(text):
    with pytest.raises(YAMLError, match=r"(is not a !!|!!binary without base64 data).* at line 2"):
        list(read_documents(f"a: 1\nb: {text}\n".encode()))


def test_tags_of_other_languages_are_left_aside():
    text = b"a: !!python/object/apply:os.system [ls]\nb: !" + b"x" * 1000 + b" 1"
    assert list(read_documents(text)) == [{"a": ["ls"], "b": "1"}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("!!str 8888", "=8888"), ("!!binary a", "=a"), ("!!timestamp foo", "=foo"), ('!!int "3"', "3"), ("!foo 3", "=3")],
)
def test_tags_of_a_configuration_are_left_aside(text, expected):
    assert read_document(f"a: {text}", resolve)[0] == {"a": expected}


@pytest.mark.parametrize(
    "text", ["!!int 3: a\n!!int 3: b", "{!!bool true: 1, !!bool true: 2}", "!!binary aGk=: 1\naGk=: 2"]
)
def test_a_tagged_key_of_a_configuration_stands_once_too(text):
    with pytest.raises(YAMLError, match="duplicate key"):
        read_document(text, resolve)
