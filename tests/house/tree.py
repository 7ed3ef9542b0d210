"""Read a revision of the project: its modules, their syntax, its import contracts.

Rule: what is counted is read, not imported, so that every count also runs on an older revision (`--root`).
"""

import ast
import gc
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
NodeT = TypeVar("NodeT", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef
NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Module:
    """A Python file of `extender`."""

    def __init__(self, path: Path, package: Path) -> None:
        self.path = path
        parts = path.relative_to(package).with_suffix("").parts
        self.name = ".".join(part for part in parts if part != "__init__")
        """Name below `extender`: `core.engine`."""
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()

    @cached_property
    def _found(self) -> dict[type[ast.AST], list[tuple[str, Any]]]:
        found: dict[type[ast.AST], list[tuple[str, Any]]] = defaultdict(list)

        def visit(node: ast.AST, scope: str) -> None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr_context):  # a third of all nodes: says what its parent says
                    continue
                found[type(child)].append((scope, child))
                visit(child, f"{scope}.{child.name}".lstrip(".") if isinstance(child, NAMED) else scope)

        gc.disable()  # a third of the time of a million nodes
        try:
            visit(ast.parse(self.text), "")
        finally:
            gc.enable()
        return found

    def nodes(self, kind: type[NodeT]) -> list[tuple[str, NodeT]]:
        """Return (name of the class and function around it, node) for the nodes of a type."""
        return self._found[kind]

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Yield (name with its class, function)."""
        found: list[tuple[str, Function]] = [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]
        for scope, node in found:
            yield f"{scope}.{node.name}".lstrip("."), node

    def at(self, node: Any, what: str) -> str:
        """Render `core/engine.py:12 what`, for a reader who checks."""
        return f"{self.path.as_posix().rpartition('/extender/')[2]}:{node.lineno} {what}"


class Tree:
    """A revision of the project."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.package = root / "extender"

    @cached_property
    def modules(self) -> list[Module]:
        return [Module(path, self.package) for path in sorted(self.package.rglob("*.py"))]

    @cached_property
    def scripts(self) -> dict[str, str]:
        """Path -> text of the page's JavaScript."""
        paths = sorted(self.package.rglob("*.js"))
        return {path.relative_to(self.package).as_posix(): path.read_text(encoding="utf-8") for path in paths}

    @cached_property
    def contracts(self) -> dict[str, dict[str, Any]]:
        """ID -> import contract."""
        project = tomllib.loads((self.root / "pyproject.toml").read_text(encoding="utf-8"))
        return {one["id"]: one for one in project["tool"]["importlinter"]["contracts"]}

    def layers(self, contract: str) -> list[list[str]]:
        """Return the layers of a contract, highest first, each with its modules."""
        layers = self.contracts[contract]["layers"]
        return [[name.strip(" ()") for name in layer.split("|")] for layer in layers]

    def below(self, contract: str, name: str) -> list[str]:
        """Return the modules in the layers below that of `name`; LookupError if no layer has it."""
        layers = self.layers(contract)
        return [one for layer in layers[self._place(layers, contract, name) + 1 :] for one in layer]

    def beside(self, contract: str, *names: str) -> list[str]:
        """Return the layers that have one of `names`; LookupError if none has."""
        layers = self.layers(contract)
        places = sorted({self._place(layers, contract, name) for name in names})
        return [one for place in places for one in layers[place]]

    def _place(self, layers: list[list[str]], contract: str, name: str) -> int:
        for place, layer in enumerate(layers):
            if name in layer:
                return place
        raise LookupError(f"import contract {contract}: no layer has {name}, from which tests/house counts")

    def classes(self) -> Iterator[tuple[Module, str, ast.ClassDef]]:
        """Yield (module, name with its scope, class)."""
        for module in self.modules:
            for scope, node in module.nodes(ast.ClassDef):
                yield module, f"{scope}.{node.name}".lstrip("."), node


def is_in(module: str, packages: tuple[str, ...]) -> bool:
    """Return whether the module is one of the packages or lies in one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def last_name(node: ast.AST) -> str:
    """Return `score` of `score`, `engine.score` and `score[int]`; "" of anything else."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def body_of(function: Function) -> list[ast.stmt]:
    """Return the statements of a function without its docstring."""
    has_docstring = ast.get_docstring(function, clean=False) is not None
    return function.body[1:] if has_docstring else function.body
