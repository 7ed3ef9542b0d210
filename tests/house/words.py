"""Count tables of our own words, and spellings of a shortened list."""

import ast
import re
from collections.abc import Iterator

from tests.house.count import Count
from tests.house.tree import Module, Tree, is_in, last_name

NODE_CODES = re.compile(r"NodeOutcome$")
CODES = re.compile(r"(Outcome|Verdict|State|Mode|Role|Cause)$")
"""Names of the types that list the codes of an outcome: `NodeOutcome = Literal["accepted", ...]`, or an Enum."""

MIN_CODES = 3
JS_TABLE = re.compile(r"(?:const|let)\s+(\w+)\s*=\s*\{(.*?)\n?\};?", re.DOTALL)
JS_ENTRY = re.compile(r"(?:^|[{,])\s*[\"']?(\w+)[\"']?:\s*(\[?\s*[\"'`(])", re.MULTILINE)

BELOW_THE_SERVER = ("core", "k8s", "report", "whatif")
LIMIT_TEXT = re.compile(r"\b(more (work )?than|above|beyond|at most) \{|\btoo (many|much) (steps|work)\b")


def codes(tree: Tree, types: re.Pattern[str]) -> set[str]:
    """Return the codes of the types with such a name."""
    found: set[str] = set()
    for module in tree.modules:
        for _, node in module.nodes(ast.Assign):
            if types.search(last_name(node.targets[0])) and last_name(node.value) == "Literal":
                found |= _strings(node.value)
        for _, cls in module.nodes(ast.ClassDef):
            if types.search(cls.name) and any(last_name(base).endswith("Enum") for base in cls.bases):
                found |= {text for one in cls.body if isinstance(one, ast.Assign) for text in _strings(one.value)}
    return found


def _strings(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def node_outcome_tables(tree: Tree) -> Count:
    """Count tables with at least MIN_CODES keys, all of them outcomes of a node, whose values are words."""
    known = codes(tree, NODE_CODES)
    return Count.of([place for place, keys in _tables(tree) if len(keys) >= MIN_CODES and keys <= known])


def code_tables(tree: Tree) -> Count:
    """Count tables with at least MIN_CODES keys, half of them codes of any outcome, whose values are words."""
    known = codes(tree, CODES)
    return Count.of([place for place, keys in _tables(tree) if len(keys & known) >= max(MIN_CODES, len(keys) / 2)])


def _tables(tree: Tree) -> Iterator[tuple[str, set[str]]]:
    """Yield (place, keys) of the mappings from names to words, in Python and in the page."""
    for module in tree.modules:
        for _, node in module.nodes(ast.Dict):
            keys = {one.value for one in node.keys if isinstance(one, ast.Constant) and isinstance(one.value, str)}
            if keys and len(keys) == len(node.keys) and all(map(_is_words, node.values)):
                yield module.at(node, ", ".join(sorted(keys))), keys
    for path, text in tree.scripts.items():
        for table in JS_TABLE.finditer(text):
            entries = JS_ENTRY.findall(table[2])
            if entries:
                line = text.count("\n", 0, table.start()) + 1
                yield f"{path}:{line} {table[1]}: {', '.join(key for key, _ in entries)}", {key for key, _ in entries}


def _is_words(value: ast.expr) -> bool:
    """Return whether it is a text, or a tuple or a row of a table (`Words("fits")`) that begins with one."""
    columns = value.elts if isinstance(value, ast.Tuple) else value.args if isinstance(value, ast.Call) else []
    first = columns[0] if columns else value
    return isinstance(first, ast.JoinedStr) or (isinstance(first, ast.Constant) and isinstance(first.value, str))


def shortened_lists(tree: Tree) -> Count:
    """Count f-strings that end with `and {number} more`."""
    return Count.of([place for place, text in _f_strings(tree) if text.endswith("and {} more")])


def shortened_in_any_words(tree: Tree) -> Count:
    """Count strings of Python and of the page with `{number} more`, also those with other words around it."""
    found = [place for place, text in _f_strings(tree) if re.search(r"\{\} more\b", text)]
    for path, text in tree.scripts.items():
        for match in re.finditer(r"`[^`]*\$\{[^}]*\} more`", text):
            found.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1} {match[0]}")
    return Count.of(found)


def _f_strings(tree: Tree) -> Iterator[tuple[str, str]]:
    for module in tree.modules:
        yield from _f_strings_of(module)


def _f_strings_of(module: Module) -> Iterator[tuple[str, str]]:
    """Yield (place, text) with {} for what is formatted."""
    for _, node in module.nodes(ast.JoinedStr):
        parts = [str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values]
        yield module.at(node, ast.unparse(node)), "".join(parts)


def limit_texts(tree: Tree) -> Count:
    """Count the modules below the server that say which limit of ours was reached (HOUSE.md, I4)."""
    found = []
    for module in tree.modules:
        if is_in(module.name, BELOW_THE_SERVER) and LIMIT_TEXT.search(module.text):
            docstrings = {node.value for _, node in module.nodes(ast.Expr)}
            texts = [str(one.value) for _, one in module.nodes(ast.Constant) if one not in docstrings]
            texts += [text for _, text in _f_strings_of(module)]
            said = [text for text in texts if LIMIT_TEXT.search(text)]
            found += [f"{module.name}: {'; '.join(said)}"] if said else []
    return Count.of(found)
