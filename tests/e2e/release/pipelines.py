"""The workflows of .github, read as GitHub would read them."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.e2e.release.changelog import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))


class Step(NamedTuple):
    workflow: str
    job: str
    content: dict[str, Any]

    @property
    def script(self) -> str:
        return str(self.content.get("run", ""))


def read(name: str) -> dict[str, Any]:
    """Return that workflow; its key `on` stays a word."""
    loaded: dict[str, Any] = yaml.load((GITHUB / "workflows" / name).read_text(encoding="utf-8"), yaml.BaseLoader)
    return loaded


def steps() -> Iterator[Step]:
    """Yield every step of every workflow."""
    for path in WORKFLOWS:
        for name, job in read(path.name)["jobs"].items():
            for content in job.get("steps", ()):
                yield Step(path.name, name, content)


def named(workflow: str, name: str) -> Step:
    """Return the one step of that name."""
    (found,) = [one for one in steps() if (one.workflow, one.content.get("name")) == (workflow, name)]
    return found


def run(step: Step, directory: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the script of a step as a runner does with `shell: bash`, with these variables and no others."""
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.script]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(command, cwd=directory, env={**kept, **env}, capture_output=True, text=True)


def repository(directory: Path) -> Callable[..., None]:
    """Make the directory a repository with an empty commit; return git for it."""

    def git(*words: str) -> None:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words]
        # Without the configuration of the machine, which may sign or have hooks.
        env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(command, cwd=directory, env=env, check=True, capture_output=True)

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "empty")
    return git
