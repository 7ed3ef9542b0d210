"""Who may do what at the fake API server, and the bindings that it takes."""

import ssl
from pathlib import Path

import pytest

from tests.fakes.api_server import FakeAPI
from tests.fakes.certificates import Certificates
from tests.fakes.client import Client
from tests.fakes.objects import bare_pod

PODS = "/api/v1/pods"


# --- who may do what ---


def test_what_is_forbidden(api: FakeAPI, client: Client):
    api.forbid("Pod")
    status, body = client.get(PODS)
    user = "system:serviceaccount:kube-system:extender"
    cannot = f'User "{user}" cannot list resource "pods" in API group "" at the cluster scope'
    assert (status, body["message"]) == (403, f"pods is forbidden: {cannot}")
    api.allow("Pod", "list")
    assert client.get(PODS)[0] == 200
    assert 'cannot watch resource "pods"' in client.get(PODS, watch="1")[1]["message"]
    with pytest.raises(ValueError, match="delete"):
        api.forbid("Pod", "delete")


def test_a_group_is_named_where_it_is_forbidden(api: FakeAPI, client: Client):
    api.forbid("ReplicaSet")
    message = client.get("/apis/apps/v1/replicasets")[1]["message"]
    assert message.startswith("replicasets.apps is forbidden: ")
    assert 'cannot list resource "replicasets" in API group "apps" at the cluster scope' in message


def test_a_resource_that_is_not_there(api: FakeAPI, client: Client, other: Client):
    with other.watch(PODS) as watch:
        api.remove_resource("Pod")
        assert watch.rest() == []
    status, body = client.get(PODS)
    assert (status, body["message"]) == (404, "the server could not find the requested resource")
    api.restore_resource("Pod")
    assert client.items(PODS) == []


def test_tokens_count_from_the_next_request(api: FakeAPI, client: Client):
    api.tokens = {"good"}
    assert client.get(PODS)[0] == 401
    with Client(api.url, token="good") as known, known.watch(PODS) as watch:
        api.tokens = {"new"}
        with Client(api.url, token="good") as late:
            assert late.get(PODS)[1]["reason"] == "Unauthorized"
        api.put("Pod", bare_pod("a"))
        assert watch.events(1) == ["ADDED a 2"]


# --- TLS ---


def test_tls_with_and_without_a_client_certificate(tmp_path: Path):
    certificates = Certificates(tmp_path)
    plain = ssl.create_default_context(cafile=str(certificates.ca_file))
    known = ssl.create_default_context(cafile=str(certificates.ca_file))
    known.load_cert_chain(*certificates.client())
    with FakeAPI(tls=certificates) as api:
        api.tokens = set()
        with Client(api.url, plain) as client:
            assert client.get(PODS)[0] == 401
        with Client(api.url, known) as client, client.watch(PODS) as watch:
            api.put("Pod", bare_pod("a"))
            assert watch.events(1) == ["ADDED a 2"]
        api.wait_for(lambda: api.open_watches() == 0)
    with FakeAPI(tls=certificates, require_client_certificate=True) as api:
        with Client(api.url, plain) as client, pytest.raises((ssl.SSLError, ConnectionError)):
            client.get(PODS)
        with Client(api.url, known) as client:
            assert client.items(PODS) == []


def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path):
    (tmp_path / "other").mkdir()
    context = ssl.create_default_context(cafile=str(Certificates(tmp_path / "other").ca_file))
    with (
        FakeAPI(tls=Certificates(tmp_path)) as api,
        Client(api.url, context) as client,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        client.get(PODS)


# --- bindings ---


def binding(name: str, to: str, uid: str = "") -> dict[str, object]:
    metadata = {"name": name, "namespace": "default"} | ({"uid": uid} if uid else {})
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": to}}


WEB = "/api/v1/namespaces/default/pods/web/binding"
REFUSED = 'Operation cannot be fulfilled on pods/binding "web"'


def test_a_binding_puts_the_pod_on_the_node(api: FakeAPI, client: Client, other: Client):
    api.put("Pod", bare_pod("web"))
    with other.watch(PODS, resourceVersion=api.revision) as watch:
        status, body = client.post(WEB, binding("web", "n1", "uid-web"))
        event = watch.event()
    assert (status, body["status"]) == (201, "Success")
    assert (event["type"], event["object"]["spec"]["nodeName"]) == ("MODIFIED", "n1")
    assert event["object"]["metadata"]["resourceVersion"] == "3"


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        (
            binding("web", "n1", "uid-old"),
            409,
            f"{REFUSED}: Precondition failed: UID in precondition: uid-old, UID in object meta: uid-web",
        ),
        (binding("web", "n2", "uid-web"), 409, f'{REFUSED}: pod web is already assigned to node "n1"'),
        (binding("web", ""), 422, 'Binding "web" is invalid: target.name: Required value'),
        (binding("other", "n1"), 400, "the name of the object (other) does not match the name on the URL (web)"),
    ],
    ids=["another pod", "bound already", "no node", "another name"],
)
def test_bindings_that_cannot_be(sent: dict, status: int, message: str, api: FakeAPI, client: Client):
    api.put("Pod", bare_pod("web", nodeName="n1"))
    answered, body = client.post(WEB, sent)
    assert (answered, body["message"]) == (status, message)
    assert api.revision == 2


def test_a_pod_that_is_not_there_cannot_be_bound(client: Client):
    assert client.post(WEB, binding("web", "n1"))[0] == 404
    assert client.post(WEB, ["junk"])[0] == 400
