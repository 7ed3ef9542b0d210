"""`extender cluster dump` as a process: what it prints, what it writes, and how it fails."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.cluster.files.manifests import load_cluster
from tests.builders import budget, incoming, node, pod, typed
from tests.cluster.apiserver.credentials.kubeconfigs import kubeconfig
from tests.cluster.files.test_dump import decided
from tests.conftest import ABSENT
from tests.fakes.api_server import FakeAPI, Fault, Hang
from tests.property.generate import case


def extender(*arguments, home):
    """Run the command; (exit code, stdout, stderr)."""
    env = {"PATH": "", "HOME": str(home), "PYTHONPATH": f"{ABSENT}:{Path(__file__).parents[3]}", "COLUMNS": "200"}
    command = [sys.executable, "-m", "extender", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, cwd=home, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def api():
    with FakeAPI() as fake:
        fake.put("Node", node("n1").raw)
        secret = {"env": [{"name": "PASSWORD", "value": "s3cret"}], "args": ["--password=s3cret"]}
        running = pod("a", nodeName="n1", metadata={"annotations": {"note": "s3cret"}})
        running["spec"]["containers"][0] |= secret
        fake.put("Pod", running)
        fake.put("PodDisruptionBudget", budget(app="a"))
        yield fake


def access(tmp_path, url):
    return kubeconfig(tmp_path / "kubeconfig", {"token": "t"}, {"server": url})


def test_a_live_cluster_is_dumped_and_loads_again(api, tmp_path):
    out = tmp_path / "cluster.json.gz"
    api.forbid("PersistentVolume")
    code, said, complained = extender(
        "cluster", "dump", "--kubeconfig", access(tmp_path, api.url), "--out", out, home=tmp_path
    )
    assert (code, said) == (0, f"{out}: 1 nodes, 1 pods, 1 disruption budgets\n")
    assert complained.splitlines()[-1] == (
        "extender: no permission to list PersistentVolume: plugins that read them are not evaluated"
    )
    read = load_cluster(out)
    assert read.unreadable_tables == ("volumes",)
    items = [one for kind in ("Node", "Pod", "PodDisruptionBudget") for one in api.objects(kind)]
    there = replace(load_cluster({"kind": "List", "items": items}), unreadable_tables=("volumes",))
    assert decided(read, typed(incoming())) == decided(there, typed(incoming()))
    assert b"s3cret" not in gzip.decompress(out.read_bytes())


def test_a_cluster_file_is_dumped_too(tmp_path):
    (tmp_path / "in.json").write_text(json.dumps(case(7).cluster))
    code, said, complained = extender(
        "cluster", "dump", "--cluster", tmp_path / "in.json", "-o", tmp_path / "out.json", home=tmp_path
    )
    assert (code, complained) == (0, "")
    assert said.startswith(f"{tmp_path / 'out.json'}: ")
    one = typed(case(7).pod)
    assert decided(load_cluster(tmp_path / "out.json"), one) == decided(load_cluster(case(7).cluster), one)


def failed(tmp_path, url, *more, out="cluster.json"):
    """The last line on stderr of a dump that fails, and leaves nothing behind."""
    code, said, complained = extender(
        "cluster", "dump", "--kubeconfig", access(tmp_path, url), "--out", tmp_path / out, *more, home=tmp_path
    )
    assert (code, said) == (2, ""), complained
    assert not (tmp_path / out).exists()
    assert "Traceback" not in complained
    line = complained.splitlines()[-1]
    assert sum(one.startswith("extender: ") for one in complained.splitlines()) == 1
    return line


def test_an_api_server_that_is_not_there_is_one_clear_line(tmp_path):
    with FakeAPI() as gone:
        gone.stop()  # and keeps its port, so that no other process answers there
        line = failed(tmp_path, gone.url, "--timeout", "2")
    address = re.escape(gone.url.removeprefix("http://"))
    assert re.fullmatch(rf"extender: cannot list \w+: {address}: .*Connection refused", line), line


def test_an_api_server_that_says_nothing_is_one_clear_line(api, tmp_path):
    hang = Hang()
    api.faults.add(Fault("*", "Pod", hang, times=None))
    line = failed(tmp_path, api.url, "--timeout", "1")
    assert line == f"extender: timed out after 1s reading pods from {api.url}"


def test_a_core_kind_that_may_not_be_read_is_one_clear_line(api, tmp_path):
    api.forbid("PodDisruptionBudget")
    line = failed(tmp_path, api.url)
    assert line.startswith("extender: no permission to ")
    assert "poddisruptionbudgets, which is required: 403 Forbidden: " in line


def test_a_folder_that_is_not_there_is_one_clear_line(api, tmp_path):
    line = failed(tmp_path, api.url, out="nowhere/cluster.json")
    assert "No such file or directory" in line
