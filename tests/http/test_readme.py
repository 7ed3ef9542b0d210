"""The README's requests answer as printed, and its Python runs."""

import json
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

import extender
from extender.cluster.files import example_cluster
from extender.cluster.store import ClusterStore
from extender.config import Configuration
from extender.server.app import create_app
from tests.http.conftest import client_for

pytestmark = pytest.mark.anyio

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
CALLS = re.findall(r"^\$ (curl .*localhost.*)\n((?:.+\n)+?)```", README, re.MULTILINE)


def test_there_are_five_requests():
    assert len(CALLS) == 5


@pytest.mark.parametrize(("command", "printed"), CALLS, ids=[str(place) for place in range(len(CALLS))])
async def test_a_request_answers_as_printed(command, printed):
    words = shlex.split(command)
    url = urlsplit("//" + next(word for word in words if word.startswith("localhost")))
    body = words[words.index("--json") + 1] if "--json" in words else None
    store = ClusterStore()
    store.replace(example_cluster())
    async with client_for(create_app(store, Configuration())) as client:
        answer = await client.request("POST" if body else "GET", f"{url.path}?{url.query}", content=body)
    assert answer.status_code == 200
    assert answer.text.rstrip("\n") == printed.rstrip("\n")


def test_the_python_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = Path(extender.__file__).parent / "cluster" / "example.yaml"
    cluster = yaml.load(example.read_text(encoding="utf-8"), yaml.SafeLoader)
    (tmp_path / "cluster.json").write_text(json.dumps(cluster, default=str), encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(code, {})
