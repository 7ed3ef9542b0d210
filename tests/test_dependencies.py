"""Every dependency of the service is imported by it, and what it imports is a dependency."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements):
    return {normal(re.split(r"[^\w.-]", one)[0]) for one in requirements}


def imported():
    """Distributions that a module of the service imports, at its top or within a function."""
    found = set()
    for path in (ROOT / "extender").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    distributions = importlib.metadata.packages_distributions()
    return {normal(one) for name in found - sys.stdlib_module_names - {"extender"} for one in distributions[name]}


def test_every_dependency_is_imported_and_nothing_else_is():
    """Starlette and pydantic-core are FastAPI's and pydantic's own; opentelemetry is one package of many parts."""
    required, optional = declared(PROJECT["dependencies"]), declared(PROJECT["optional-dependencies"]["otel"])
    every = imported()
    found = {name for name in every if not name.startswith("opentelemetry")}
    assert required - found == set()
    assert found - required == {"starlette", "pydantic-core"}
    assert optional <= every
