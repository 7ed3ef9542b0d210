"""`extender why --pod`: a live cluster, of which only a part is read, gives the answer of its file."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from extender import cli
from extender.errors import ExtenderError
from tests.cluster.apiserver.credentials.kubeconfigs import forget_everything, kubeconfig
from tests.fakes.api_server import FakeAPI
from tests.whatif.test_same_answers import HERE, SCENARIOS
from tests.whatif.written import pod_spec, thing, workload, written_pod

# To know what to read, `why` looks at a workload before it is admitted: a wrong selector is refused in other words.
VALUES: list[Any] = [one.values for one in SCENARIOS if one.id != "a wrong selector"]
ALONE = [(pods, claims, workloads) for pods, claims, workloads in VALUES if len(pods) + len(workloads) == 1]

MORE = [
    pytest.param([], [], [workload(selector={"matchLabels": 3})], id="a selector of another type"),
    pytest.param([], [], [workload() | {"spec": {"template": 3}}], id="a template of another type"),
    pytest.param([written_pod(affinity={"podAffinity": {"x": 3}})], [], [], id="an unknown affinity"),
    pytest.param([written_pod(runtimeClassName="none")], [], [], id="a missing RuntimeClass"),
    pytest.param(
        [written_pod(cpu=None)],
        [thing("LimitRange", "usual", spec={"limits": [{"type": "Container", "defaultRequest": {"cpu": "9"}}]})],
        [],
        id="a LimitRange beside it",
    ),
    pytest.param([], [], [workload("ReplicaSet", pod=pod_spec(priorityClassName="important"))], id="a ReplicaSet"),
]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """The options that reach an API server with the objects of HERE."""
    folder = tmp_path_factory.mktemp("live")
    with pytest.MonkeyPatch.context() as patch, FakeAPI() as api:
        forget_everything(patch, folder)
        context = {"name": "main", "context": {"cluster": "main", "user": "main"}}
        access = kubeconfig(folder / "config", {"token": "t"}, {"server": api.url}, contexts=[context])
        for item in HERE["items"]:
            api.put(item["kind"], item)
        yield ["--kubeconfig", str(access)]


@pytest.mark.parametrize(("pods", "claims", "workloads"), [*ALONE, *MORE])
def test_a_live_cluster_gives_the_answer_of_its_file(tmp_path, live, pods, claims, workloads):
    (tmp_path / "cluster.json").write_text(json.dumps(HERE))
    (tmp_path / "new.json").write_text(json.dumps({"kind": "List", "items": [*claims, *pods, *workloads]}))
    answers: list[Any] = []
    for where in (["--cluster", str(tmp_path / "cluster.json")], live):
        result = CliRunner().invoke(cli.app, ["why", "--pod", str(tmp_path / "new.json"), *where, "-o", "json"], env={})
        if isinstance(result.exception, ExtenderError):
            answers.append(str(result.exception).rpartition("new.json")[2].lstrip(",: item0123456789"))
        else:
            assert isinstance(result.exception, SystemExit | None), result.exception
            found = json.loads(result.stdout)
            answers.append((found["verdict"], found["message"], found["state"], found["admission"]))
    assert answers[0] == answers[1]
