"""docs/python.md: its examples run on the example cluster and print what stands below them; every public name is there.

`python -m tests.docs.test_python_page` writes the outputs.
"""

import contextlib
import io
import json
import re
import shutil
import tempfile
from pathlib import Path

import extender
from extender.cli.commands.serve import EXAMPLE_PREEMPTION, EXAMPLE_REQUEST
from extender.cluster.cache.cache import ClusterCache
from extender.cluster.files.manifests import example_cluster
from tests.server.recording.rig import Rig

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```\n", re.DOTALL)


def prepare(folder: Path) -> None:
    """Write the files that the examples read: the example cluster, and a recording of its service."""
    shutil.copyfile(Path(extender.__file__).parent / "cluster" / "files" / "example.yaml", folder / "cluster.yaml")
    cache = ClusterCache()
    cache.replace(example_cluster())
    rig = Rig(folder / "recording", cache)
    rig.recorder.start()
    rig.ask("filter", json.dumps(EXAMPLE_REQUEST).encode())
    rig.ask("preempt", json.dumps(EXAMPLE_PREEMPTION).encode())
    rig.recorder.stop()


def renewed(page: str, folder: Path) -> str:
    """Return the page with the outputs as they are now; each example goes on with the names of those before it."""
    prepare(folder)
    names: dict[str, object] = {}

    def run(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.chdir(folder):
            exec(block[1], names)
        return f"```python\n{block[1]}```\n\n```text\n{printed.getvalue()}```\n"

    return EXAMPLE.sub(run, page)


def test_the_examples_print_what_stands_below_them(tmp_path):
    page = PAGE.read_text(encoding="utf-8")
    assert len(EXAMPLE.findall(page)) == page.count("```python") == 5
    assert renewed(page, tmp_path) == page, "run `python -m tests.docs.test_python_page`"


def test_every_public_name_is_in_the_reference():
    names = re.findall(r"^::: extender\.(\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(names) == sorted(extender.__all__)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), Path(work)), encoding="utf-8")
