"""The parts of the image as a CycloneDX document: what the service imports, with versions, package URLs and licenses.

    python -m tests.e2e.image.sbom build/sbom.json

Read from the environment that this runs in: the development lock takes the versions of the runtime lock, and what the
service does not need is left out here, as it is left out of the image. The hashes of the files that were installed are
in requirements.lock.

Rule: the same commit gives the same bytes: no time, no serial number, no address.
"""

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
JSON = dict[str, Any]

_LICENSE_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.e2e.image.sbom FILE", file=sys.stderr)  # noqa: T201
        return 2
    try:
        text = document()
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    target = Path(arguments[0])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {len(json.loads(text)['components'])} packages")  # noqa: T201
    return 0


def document() -> str:
    """The document as JSON; ValueError if this environment has another version of something than the lock."""
    project, needs = _project(), needed_to_run()
    installed = {name: importlib.metadata.version(name) for name in needs}
    check_versions(installed, locked((ROOT / "requirements.lock").read_text(encoding="utf-8")))
    top = {
        "type": "application",
        "bom-ref": project["name"],
        "name": project["name"],
        "version": project["version"],
        "description": project["description"],
        "licenses": [{"expression": project["license"]}],
    }
    below = {project["name"]: direct_needs(), **needs}
    refs = {name: purl(name, installed[name]) for name in needs} | {project["name"]: project["name"]}
    found = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": top},
        "components": [component(name, installed[name]) for name in needs],
        "dependencies": [{"ref": refs[name], "dependsOn": [refs[one] for one in below[name]]} for name in below],
    }
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"not a CycloneDX document: {problem}")
    return text


def component(name: str, version: str) -> JSON:
    """A package as it is installed here."""
    metadata: Any = importlib.metadata.metadata(name)
    return {
        "type": "library",
        "bom-ref": purl(name, version),
        "name": metadata["Name"],
        "version": version,
        "description": metadata.get("Summary", ""),
        "licenses": licenses(metadata),
        "purl": purl(name, version),
    }


def licenses(metadata: Any) -> list[JSON]:
    """As declared: an SPDX expression, else classifiers, else the first line of what is said."""
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    found = [match[1] for one in metadata.get_all("Classifier", []) if (match := _LICENSE_CLASSIFIER.fullmatch(one))]
    said = metadata.get("License", "").strip().splitlines()
    return [{"license": {"name": name}} for name in found or said[:1]]


def purl(name: str, version: str) -> str:
    """The package URL: which package of which registry, and no address."""
    return f"pkg:pypi/{name}@{version}"


# --- what is needed -------------------------------------------------------------------------------------------------


def _project() -> JSON:
    found: JSON = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def direct_needs() -> list[str]:
    """What pyproject.toml names as dependencies; not those of an extra."""
    return sorted({normal(one.name) for one in _wanted(_project()["dependencies"], "")})


def needed_to_run() -> dict[str, list[str]]:
    """Package -> what it needs itself, on this platform; from the project's dependencies on."""
    needs: dict[str, set[str]] = {}
    ahead, seen = [(name, "") for name in direct_needs()], set[tuple[str, str]]()
    while ahead:
        name, extra = one = ahead.pop()
        if one not in seen:
            seen.add(one)
            wanted = _wanted(importlib.metadata.requires(name) or (), extra)
            needs.setdefault(name, set()).update(normal(other.name) for other in wanted)
            ahead += [(normal(other.name), more) for other in wanted for more in ("", *other.extras)]
    return {name: sorted(needs[name]) for name in sorted(needs)}


def _wanted(requirements: Iterable[str], extra: str) -> list[Requirement]:
    every = map(Requirement, requirements)
    return [one for one in every if one.marker is None or one.marker.evaluate({"extra": extra})]


def locked(text: str) -> dict[str, str]:
    """Name -> version of a lock file."""
    return {normal(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", text, re.MULTILINE)}


def check_versions(installed: dict[str, str], versions: dict[str, str]) -> None:
    """ValueError that names the package whose version is not the lock's."""
    for name, version in installed.items():
        if versions.get(name) != version:
            raise ValueError(f"{name} {version} is installed, and requirements.lock has {versions.get(name, 'none')}")


def normal(name: str) -> str:
    """As registries compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
