"""Every dependency of the service is imported by it, and what it imports is a dependency."""

import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

IMPORT = re.compile(r"^ *(?:import|from(?= \S+ import)) (\w+)", re.MULTILINE)
"""ruff allows one import per line; `ast` takes 3 s for all modules."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements):
    return {normal(re.split(r"[^\w.-]", one)[0]) for one in requirements}


def imported():
    """Distributions that a module of the service imports, at its top or within a function."""
    found = {name for path in (ROOT / "extender").rglob("*.py") for name in IMPORT.findall(path.read_text("utf-8"))}
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
