"""Count lines: of `extender`, of each package, of comments, of files and functions."""

import ast
import re
from collections import Counter
from statistics import median

from tests.house.count import Count
from tests.house.tree import Tree, body_of

NOT_A_REASON = re.compile(r"#\s*(-{3,}|type:|noqa|fmt:|pragma|!/)")
"""Comments that separate sections or are read by tools."""

STRING_OR_COMMENT = re.compile(
    r"""\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?P<comment>\#[^\n]*)""", re.DOTALL
)
"""What a # may stand in: `tokenize` takes ten times as long."""

MAX_HELPER_LINES = 4


def package_lines(tree: Tree) -> Counter[str]:
    """Return package, two levels deep -> lines of its files, those of deeper packages included."""
    found: Counter[str] = Counter()
    for module in tree.modules:
        folders = module.path.parent.relative_to(tree.package).parts
        found[".".join(folders[:2]) or "extender"] += len(module.lines)
    return found


def lines(tree: Tree) -> Count:
    """Count the lines of all Python files, blank ones and docstrings too."""
    return Count(
        sum(len(module.lines) for module in tree.modules), [f"{n:6} {p}" for p, n in package_lines(tree).items()]
    )


def files(tree: Tree) -> Count:
    return Count.of([f"{len(module.lines):6} {module.name}" for module in tree.modules])


def comments(tree: Tree) -> Count:
    """Count lines with a comment, in percent of the lines that are not blank; headings and marks of tools aside."""
    found, size = [], 0
    for module in tree.modules:
        size += sum(bool(line.strip()) for line in module.lines)
        for match in STRING_OR_COMMENT.finditer(module.text):
            if match["comment"] and not NOT_A_REASON.match(match["comment"]):
                found.append(f"{module.name}:{module.text.count(chr(10), 0, match.start()) + 1} {match['comment']}")
    return Count(round(100 * len(found) / size, 2), found)


def file_size(tree: Tree) -> Count:
    """Count the lines of the median file."""
    sizes = sorted((len(module.lines), module.name) for module in tree.modules)
    return Count(median(size for size, _ in sizes), [f"{size:6} {name}" for size, name in sizes[::-1]])


def function_size(tree: Tree) -> Count:
    """Count the lines of the median function's body, without its docstring."""
    sizes = []
    for module in tree.modules:
        for name, function in module.functions():
            sizes.append((size_of(body_of(function)), module.at(function, name)))
    sizes.sort()
    return Count(median(size for size, _ in sizes), [f"{size:6} {name}" for size, name in sizes[:-51:-1]])


def size_of(body: list[ast.stmt]) -> int:
    """Return the lines from the first to the last statement; 0: there is none."""
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def helpers(tree: Tree) -> Count:
    """Count private functions with a body of at most MAX_HELPER_LINES that their module uses in one place.

    A function with a decorator is not counted: what calls it is not its name alone.
    """
    found = []
    for module in tree.modules:
        names = (node.id for _, node in module.nodes(ast.Name))
        uses = Counter([*names, *(node.attr for _, node in module.nodes(ast.Attribute))])
        for name, function in module.functions():
            is_private = function.name.startswith("_") and not function.name.startswith("__")
            if not is_private or function.decorator_list or uses[function.name] != 1:
                continue
            size = size_of(body_of(function))
            if size <= MAX_HELPER_LINES:
                found.append(module.at(function, f"{name} ({size})"))
    return Count.of(found)


def layers(tree: Tree) -> Count:
    """Count the import layers of `extender`, highest first."""
    return Count.of([" | ".join(layer) for layer in tree.layers("layers")])
