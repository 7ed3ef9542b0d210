"""Collect the texts of a module: what its functions say, and the constants that they say it with.

A text is a line with a blank in it, so that names and separators are none. What is put into a text is `{}`.

Rule: read from the source, so that no text can be forgotten; a docstring, an annotation and a log line are none.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any


def texts(module: ModuleType, *names: str) -> set[str]:
    """Return the texts of the module, or of those of its definitions that are named: `one`, or `Class.method`."""
    found, seen = set[str](), set[str]()
    for name, statement in _definitions(_tree(module).body):
        if not names or name in names:
            seen.add(name)
            value = getattr(module, name.partition(".")[0])
            found |= set(_strings(value)) if isinstance(value, _CONSTANT) else set(_literals(statement, module))
    assert seen >= set(names), f"{module.__name__} has no {set(names) - seen}"
    return {text for text in found if is_text(text)}


def strings_given_to(module: ModuleType, callee: str) -> set[str]:
    """Return the strings that the module passes to this class or function, with and without a blank."""
    calls = (
        node for node in ast.walk(_tree(module)) if isinstance(node, ast.Call) and ast.unparse(node.func) == callee
    )
    return {text for call in calls for one in call.args for text in _literals(one, module)}


def with_holes(text: str) -> str:
    """Return a text of a page, such as `Insufficient {resource}`, as `texts` has it."""
    return re.sub(r"\{[^{}]*\}", "{}", text)


_CONSTANT = (str, dict, tuple, list, set, frozenset)
"""Types of constants whose value has the texts; of others the source has them."""


def _tree(module: ModuleType) -> ast.Module:
    assert module.__file__ is not None
    return ast.parse(Path(module.__file__).read_text(encoding="utf-8"))


def _definitions(body: list[ast.stmt], of: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield the name and the statement of each function, class and constant, and of the members of classes."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield of + statement.name, statement
        elif not of and isinstance(statement, ast.Assign | ast.AnnAssign):
            (target,) = statement.targets if isinstance(statement, ast.Assign) else (statement.target,)
            if isinstance(target, ast.Name):
                yield target.id, statement
        if isinstance(statement, ast.ClassDef):
            yield from _definitions(statement.body, f"{statement.name}.")


def is_text(text: str) -> bool:
    """Return whether a string is a line with a blank in it."""
    return re.fullmatch(r".*(\w.* | .*\w).*", text) is not None  # one line


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of a constant, of a mapping those of its values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, _CONSTANT):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)


def _literals(node: ast.AST, module: ModuleType) -> Iterator[str]:
    """Yield the literals below a node, each f-string as one template."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and re.search(r"\b_?log[._]", ast.unparse(node.func)):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.JoinedStr):
        yield "".join(_part(one, module) for one in node.values)
        children = (one.value for one in node.values if isinstance(one, ast.FormattedValue))
    elif isinstance(node, ast.AnnAssign):
        children = (one for one in (node.value,) if one is not None)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        children = iter(node.body)
    for child in children:
        yield from _literals(child, module)


def _part(node: ast.expr, module: ModuleType) -> str:
    """Return a part of an f-string: its text, that of a constant of the module, or `{}`."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    named = node.value if isinstance(node, ast.FormattedValue) else node
    value = getattr(module, named.id, None) if isinstance(named, ast.Name) else None
    return value if isinstance(value, str) else "{}"
