"""Count mechanisms that exist several times: caches that drop the oldest entry, spellings of a scenario."""

import ast
import re

from tests.house.count import Count
from tests.house.tree import Tree, last_name

MIN_FIELDS = 4
"""Fields of a scenario from which on a list of names is a spelling of it."""


def lrus(tree: Tree) -> Count:
    """Count caches that drop what was used longest ago.

    That is a function which takes one entry of a mapping out, to put it back as the newest, and drops the first one of
    the same mapping; or a method that calls `move_to_end`. A queue of a limited length only drops the first one, and
    functools.lru_cache is not ours (`memoized`).
    """
    found = []
    for module in tree.modules:
        if "next(iter(" in module.text:
            functions = [(name, one) for name, one in module.functions() if drops_oldest(one)]
            outer = {name.rpartition(".")[0] for name, _ in functions}  # a function around another one does not count
            found += [module.at(function, name) for name, function in functions if name not in outer]
        for scope, node in module.nodes(ast.Attribute):
            if node.attr == "move_to_end":
                found.append(module.at(node, scope))
    return Count.of(found)


def drops_oldest(function: ast.AST) -> bool:
    """Return whether there is `kept.pop(key)`, and `del kept[next(iter(kept))]` or `kept.pop(next(iter(kept)))`."""
    takes_out, drops_first = set[str](), set[str]()
    for one in ast.walk(function):
        if isinstance(one, ast.Call) and last_name(one.func) == "pop" and one.args:
            mapping, key = ast.unparse(one.func).removesuffix(".pop"), ast.unparse(one.args[0])
        elif isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Del):
            mapping, key = ast.unparse(one.value), ast.unparse(one.slice)
        else:
            continue
        (drops_first if "next(iter(" in key else takes_out).add(mapping)
    return bool(takes_out & drops_first)


def memoized(tree: Tree) -> Count:
    """Count functions with functools.lru_cache or cache."""
    found = []
    for module in tree.modules:
        for _, function in module.functions():
            decorators = [one.func if isinstance(one, ast.Call) else one for one in function.decorator_list]
            found += [
                module.at(function, function.name) for one in decorators if last_name(one) in ("lru_cache", "cache")
            ]
        for _, call in module.nodes(ast.Call):
            if isinstance(call.func, ast.Call) and last_name(call.func.func) == "lru_cache":
                found.append(module.at(call, ast.unparse(call)))
    return Count.of(found)


def scenario_spellings(tree: Tree) -> Count:
    """Count parameter lists, classes and scripts of the page that list at least MIN_FIELDS fields of `Scenario`."""
    scenario = next(node for _, name, node in tree.classes() if name == "Scenario")
    fields = {
        one.target.id for one in scenario.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    fields |= {name.removesuffix("s") for name in fields}  # --add-node is add_nodes
    found = []
    for module in tree.modules:
        for name, function in module.functions():
            listed = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)} & fields
            if len(listed) >= MIN_FIELDS:
                found.append(module.at(function, f"{name}({', '.join(sorted(listed))})"))
        for _, node in module.nodes(ast.ClassDef):
            listed = {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
            if len(listed & fields) >= MIN_FIELDS:
                found.append(module.at(node, f"{node.name}: {', '.join(sorted(listed & fields))}"))
    for path, text in tree.scripts.items():
        listed = {name for name in fields if re.search(rf"\.{_camel(name)} =|\b{_camel(name)}:", text)}
        if len(listed) >= MIN_FIELDS:
            found.append(f"{path}: {', '.join(sorted(listed))}")
    return Count.of(found)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
