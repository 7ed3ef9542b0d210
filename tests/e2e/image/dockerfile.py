"""The Dockerfile by stage, and its steps run in a folder, without a container engine.

What cannot be had without one is the base image: the Python that runs the tests stands in for it. Absolute paths of the
image are below a root folder, so that a step writes there only.

Rule: an instruction that is not known here is an error; a step is run as it is written, or not at all.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[3]

_KNOWN = {"ARG", "ENV", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "STOPSIGNAL", "EXPOSE", "HEALTHCHECK"}
_KNOWN |= {"ENTRYPOINT", "CMD"}


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    rest: str

    @property
    def words(self) -> list[str]:
        """As a shell would split them, or as the JSON list has them."""
        return json.loads(self.rest) if self.rest.startswith("[") else shlex.split(self.rest)


@dataclass(slots=True)
class Stage:
    base: str
    instructions: list[Instruction] = field(default_factory=list)

    def all(self, name: str) -> list[Instruction]:
        return [one for one in self.instructions if one.name == name]

    def only(self, name: str) -> Instruction:
        (found,) = self.all(name)
        return found

    def pairs(self, name: str) -> dict[str, str]:
        """Values of ENV, LABEL or ARG by name."""
        return dict(word.split("=", 1) for one in self.all(name) for word in one.words if "=" in word)


def stages(path: Path) -> list[Stage]:
    """The stages, each with its instructions; ARGs before the first FROM belong to none."""
    found: list[Stage] = []
    for one in DockerfileParser(path=str(path)).structure:
        name, rest = one["instruction"], one["value"]
        if name == "FROM":
            found.append(Stage(rest.split()[0]))
        elif found and name != "COMMENT":
            assert name in _KNOWN, f"not known here: {name}"
            found[-1].instructions.append(Instruction(name, rest))
    return found


def ignored(path: Path, patterns: list[str]) -> bool:
    """Does .dockerignore keep the file, by its path below the repository, out of the build? The last match decides."""
    verdict = False
    for pattern in patterns:
        wanted, plain = not pattern.startswith("!"), pattern.lstrip("!")
        names = [str(path), *(str(parent) for parent in path.parents)]
        anywhere = plain.startswith("**/") and any(fnmatch(part, plain[3:]) for part in path.parts)
        if anywhere or any(fnmatch(name, plain) for name in names):
            verdict = wanted
    return verdict


def context() -> list[str]:
    """The patterns of .dockerignore."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


class Build:
    """The steps of a stage, in `root` instead of `/`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workdir = "/"
        self.env = {"PATH": f"{root}/bin:/usr/bin:/bin", "HOME": str(root)}
        outside = ("SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY")  # how this machine reaches a registry
        self.env |= {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in outside}
        (root / "bin").mkdir(parents=True)
        python = root / "bin" / "python"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
        python.chmod(0o755)

    def below(self, path: str) -> Path:
        """Where a path of the image is."""
        return self.root / (Path(self.workdir) / path).relative_to("/")

    def run(self, stage: Stage) -> None:
        for one in stage.instructions:
            match one.name:
                case "ARG" | "ENV":
                    self.env |= dict(word.split("=", 1) for word in one.words)
                case "WORKDIR":
                    self.workdir = one.rest
                    self.below("").mkdir(parents=True, exist_ok=True)
                case "COPY":
                    self._copy(one.words)
                case "RUN":
                    self._shell(one.rest)

    def _copy(self, words: list[str]) -> None:
        patterns, (*sources, target) = context(), words
        for source in sources:
            found = [path for path in (ROOT / source).rglob("*") if path.is_file()] or [ROOT / source]
            for path in found:
                relative = path.relative_to(ROOT)
                if not ignored(relative, patterns):
                    name = relative.name if path == ROOT / source else path.relative_to(ROOT / source)
                    place = self.below(target) / name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, place)

    def _shell(self, command: str) -> None:
        here = re.sub(r"(?<![\w./-])/venv", str(self.root / "venv"), command)
        # A cache of pip's changes nothing of what is installed, and spares the network.
        env = {name: value for name, value in self.env.items() if name != "PIP_NO_CACHE_DIR"}
        done = subprocess.run(["/bin/sh", "-ec", here], cwd=self.below(""), env=env, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"RUN {command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
