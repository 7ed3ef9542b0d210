"""Dry runs: what is asked of the API server, and what is made of its answers."""

import json

import pytest
from kubernetes.client import Configuration

from extender.admission.findings import Refused
from extender.cluster.apiserver.client import ApiServer
from extender.cluster.apiserver.credentials import Credentials
from extender.cluster.apiserver.dry_run import MAX_TRIES, ServerAdmission
from extender.errors import ClusterLost
from tests.fakes import statuses
from tests.fakes.api_server import Answer, CutBody, Drop, FakeAPI, Fault
from tests.fakes.clock import Clock

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart-9"}, "spec": {"containers": [{"name": "c"}]}}


@pytest.fixture
def api():
    with FakeAPI() as started:
        yield started


def admission(api, seconds=30.0, **settings):
    configuration = Configuration()
    configuration.host = api.url
    clock = Clock()
    server = ApiServer(lambda: Credentials(configuration, "test"))
    return ServerAdmission(server, clock() + seconds, clock=clock, pause=clock.pause, **settings)


def admit(api, kind="Pod", manifest=POD, namespace="shop", **settings):
    return admission(api, **settings).admit(kind, manifest, namespace)


def test_a_dry_run_returns_what_would_be_stored_and_stores_nothing(api):
    def defaulted(pod):
        pod["spec"]["priority"] = 100
        return ()

    api.admit = defaulted
    found, findings = admit(api)
    assert found["spec"] == {"containers": [{"name": "c"}], "priority": 100}
    assert found["metadata"]["uid"]
    assert (findings.pruned, findings.warnings) == ([], [])
    assert POD["spec"] == {"containers": [{"name": "c"}]}
    assert api.objects("Pod") == []
    [asked] = api.requests
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/shop/pods")
    assert asked.params == {"dryRun": "All", "fieldValidation": "Warn"}
    assert json.loads(asked.body) == POD | {"metadata": {"name": "cart-9", "namespace": "shop"}}


@pytest.mark.parametrize(
    ("kind", "manifest", "path"),
    [
        ("Pod", {"metadata": {"name": "p", "namespace": "own"}}, "/api/v1/namespaces/own/pods"),
        ("Deployment", {"metadata": {"name": "d"}}, "/apis/apps/v1/namespaces/shop/deployments"),
        ("CronJob", {"metadata": {"name": "d"}}, "/apis/batch/v1/namespaces/shop/cronjobs"),
        ("StatefulSet", {"metadata": {"name": "d"}}, "/apis/apps/v1/namespaces/shop/statefulsets"),
        ("PriorityClass", {"metadata": {"name": "high"}}, "/apis/scheduling.k8s.io/v1/priorityclasses"),
        ("RuntimeClass", {"metadata": {"name": "kata"}}, "/apis/node.k8s.io/v1/runtimeclasses"),
        ("ResourceQuota", {"metadata": {"name": "q"}}, "/api/v1/namespaces/shop/resourcequotas"),
        ("Node", {"apiVersion": "v1", "metadata": {"name": "n"}}, "/api/v1/nodes"),
    ],
)
def test_the_request_goes_to_the_collection_of_its_kind(api, kind, manifest, path):
    found, _ = admit(api, kind, manifest)
    assert [one.path for one in api.requests] == [path]
    assert (found["kind"], found["metadata"]["name"]) == (kind, manifest["metadata"]["name"])


@pytest.mark.parametrize("wrong", [{"apiVersion": "../v1"}, {"apiVersion": "v1/../../x"}, {"apiVersion": "v1?x="}])
def test_an_api_version_cannot_change_the_path(api, wrong):
    with pytest.raises(Refused, match="apiVersion: Invalid value: "):
        admit(api, manifest=POD | wrong)
    assert api.requests == []


@pytest.mark.parametrize("namespace", ["..", "a/b", "a?b", "A"])
def test_a_namespace_cannot_change_the_path(api, namespace):
    with pytest.raises(Refused, match=r"metadata\.namespace: Invalid value: "):
        admit(api, namespace=namespace)
    assert api.requests == []


def test_unknown_fields_are_pruned_and_other_warnings_are_passed_on(api):
    api.admit = lambda _: ['unknown field "spec.containers[0].resource"', 'a "quoted" \\ text, and more']
    _, findings = admit(api)
    assert findings.pruned == ["spec.containers[0].resource"]
    assert findings.warnings == ['a "quoted" \\ text, and more']


def test_strict_asks_for_strict_validation(api):
    admit(api, strict=True)
    assert api.requests[0].params["fieldValidation"] == "Strict"


def refuse(status):
    def admit(_):
        raise statuses.Refused(status)

    return admit


@pytest.mark.parametrize(
    "status",
    [
        statuses.failure(422, 'Pod "cart-9" is invalid: spec.containers[0].image: Required value'),
        statuses.failure(403, 'pods "cart-9" is forbidden: exceeded quota: small, requested: pods=1'),
        statuses.failure(400, 'strict decoding error: unknown field "spec.hostNetwerk"'),
        statuses.failure(404, 'namespaces "shop" not found'),
        statuses.failure(403, "admission webhook denied the request"),
        statuses.failure(409, "object is being deleted"),
    ],
)
def test_what_the_api_server_refuses_is_refused_in_its_words(api, status):
    api.admit = refuse(status)
    with pytest.raises(Refused) as refused:
        admit(api)
    assert str(refused.value) == f"the API server refuses Pod shop/cart-9: {status['message']}"
    assert len(api.requests) == 1


def test_without_permission_it_says_which_one(api):
    api.forbid("Pod", "create")
    with pytest.raises(ClusterLost, match="requires permission to create pods in namespace shop, although a dry run"):
        admit(api)
    api.forbid("PriorityClass", "create")
    with pytest.raises(ClusterLost, match="requires permission to create priorityclasses, although a dry run"):
        admit(api, "PriorityClass", {"metadata": {"name": "high"}})


def test_an_object_that_exists_is_asked_about_under_another_name(api):
    api.put("Pod", POD | {"metadata": {"name": "cart-9", "namespace": "shop"}})
    found, findings = admit(api)
    assert found["metadata"]["name"] == "cart-9"
    assert "generateName" not in found["metadata"]
    assert findings.warnings == ["Pod shop/cart-9 exists: the API server was asked about another one like it"]
    first, second = (json.loads(one.body)["metadata"] for one in api.requests)
    assert first == {"name": "cart-9", "namespace": "shop"}
    assert second == {"generateName": "cart-9-", "namespace": "shop"}


def test_a_name_may_be_left_to_the_api_server(api):
    found, _ = admit(api, manifest=POD | {"metadata": {"generateName": "cart-"}})
    assert found["metadata"]["name"].startswith("cart-")
    api.admit = refuse(statuses.failure(422, "invalid"))
    with pytest.raises(Refused, match="the API server refuses Pod shop/cart-: invalid"):
        admit(api, manifest=POD | {"metadata": {"generateName": "cart-"}})


@pytest.mark.parametrize("action", [Answer(500), Answer(503), Answer(429, retry_after=3), Drop(), CutBody(3)])
def test_it_asks_again_after_a_failure_that_may_be_transient(api, action):
    api.faults.add(Fault("create", "Pod", action))
    assert admit(api)[0]["metadata"]["name"] == "cart-9"
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    ("action", "says"), [(Answer(500), "500 InternalError"), (Answer(429), "429 Too"), (Drop(), "")]
)
def test_it_gives_up_in_the_end(api, action, says):
    api.faults.add(Fault("create", "Pod", action, times=100))
    with pytest.raises(ClusterLost, match=rf"does not say what it makes of Pod shop/cart-9: .*{says}"):
        admit(api)
    assert len(api.requests) == MAX_TRIES


def test_it_does_not_wait_past_the_deadline(api):
    api.faults.add(Fault("create", "Pod", Answer(429, retry_after=60), times=100))
    with pytest.raises(ClusterLost, match="429"):
        admit(api)
    assert len(api.requests) == 1
    with pytest.raises(ClusterLost, match="no time left"):
        admit(api, seconds=0.1)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"kind":"Pod"}', b'{"kind":"Status","metadata":{}}', b"[" * 5000]
)
def test_an_answer_that_is_no_such_object_is_an_error(api, body):
    api.faults.add(Fault("create", "Pod", Answer(201, body=body)))
    with pytest.raises(ClusterLost, match="did not answer with Pod shop/cart-9"):
        admit(api)


def test_credentials_that_are_refused_are_no_refusal_of_the_pod(api):
    api.access.tokens = {"another"}
    with pytest.raises(ClusterLost, match="401 Unauthorized"):
        admit(api)
