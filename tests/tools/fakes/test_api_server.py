"""The fake API server does what a real one does."""

import pytest

from extender.k8s.kinds import kind_without_group
from tests.fakes.api_server import RESOURCES, FakeAPI
from tests.fakes.client import Client
from tests.fakes.objects import bare_pod, put_pods

PODS = "/api/v1/pods"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


# --- objects ---


def test_put_counts_revisions_and_fills_in_what_is_missing(api: FakeAPI):
    created = api.put("Service", {"metadata": {"name": "web"}})
    updated = api.put("Service", {"metadata": {"name": "web"}, "spec": {"x": 1}})
    assert created["metadata"]["namespace"] == "default"
    assert (created["kind"], created["apiVersion"]) == ("Service", "v1")
    assert updated["metadata"]["uid"] == created["metadata"]["uid"] != ""
    assert (
        int(updated["metadata"]["resourceVersion"]) == int(created["metadata"]["resourceVersion"]) + 1 == api.revision
    )
    assert api.objects("Service") == [updated] == [api.get("Service", "web")]


def test_another_uid_replaces_the_object(api: FakeAPI, client: Client):
    api.put("Pod", bare_pod("a"))
    with client.watch(PODS, resourceVersion=api.revision) as watch:
        api.put("Pod", bare_pod("a", uid="another"))
        assert watch.events(2) == ["DELETED a 3", "ADDED a 4"]


def test_an_unknown_kind_is_a_clear_error(api: FakeAPI):
    with pytest.raises(KeyError, match="no kind 'Pods'"):
        api.put("Pods", bare_pod("a"))
    with pytest.raises(KeyError, match="Pod default/a not found"):
        api.delete("Pod", "a")


@pytest.mark.parametrize("kind", RESOURCES)
def test_every_kind_is_listed_and_watched_at_its_path(kind: str, api: FakeAPI, client: Client):
    resource = RESOURCES[kind]
    api.put(kind, {"metadata": {"name": "a"}})
    status, body = client.get(resource.path)
    assert (status, body["kind"], body["apiVersion"]) == (200, f"{kind_without_group(kind)}List", resource.api_version)
    assert [set(item) for item in body["items"]] == [{"metadata"}]
    with client.watch(resource.path) as watch:
        event = watch.event()
    assert (event["type"], event["object"]["kind"], event["object"]["apiVersion"]) == (
        "ADDED",
        kind_without_group(kind),
        resource.api_version,
    )


# --- lists ---


def test_a_list_is_in_the_order_of_namespace_and_name(api: FakeAPI, client: Client):
    for name, namespace in [("b", "y"), ("a", "y"), ("c", "x")]:
        api.put("Pod", bare_pod(name, namespace=namespace))
    assert client.items(PODS) == ["c", "a", "b"]


def test_pages_show_the_moment_of_the_first(api: FakeAPI, client: Client):
    put_pods(api, 5)
    _, first = client.get(PODS, limit=2)
    api.delete("Pod", "p4")
    api.put("Pod", bare_pod("p5"))
    _, second = client.get(PODS, limit=2, continue_=first["metadata"]["continue"])
    _, third = client.get(PODS, limit=2, continue_=second["metadata"]["continue"])
    assert [page["metadata"].get("remainingItemCount") for page in (first, second, third)] == [3, 1, None]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {"6"}
    assert [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]] == [
        f"p{number}" for number in range(5)
    ]
    assert "continue" not in third["metadata"]


def test_a_page_that_fits_is_the_only_one(api: FakeAPI, client: Client):
    put_pods(api, 2)
    assert "continue" not in client.get(PODS, limit=2)[1]["metadata"]


def test_a_list_at_version_zero_is_not_paged(api: FakeAPI, client: Client):
    put_pods(api, 3)
    assert len(client.items(PODS, limit=2, resourceVersion="0")) == 3


def test_a_compacted_continue_token_is_expired(api: FakeAPI, client: Client):
    put_pods(api, 3)
    _, first = client.get(PODS, limit=2)
    api.put("Pod", bare_pod("p9"))
    api.compact()
    status, body = client.get(PODS, limit=2, continue_=first["metadata"]["continue"])
    assert (status, body["code"], body["reason"]) == (410, 410, "Expired")
    assert body["message"].startswith("The provided continue parameter is too old")


@pytest.mark.parametrize(
    ("params", "status", "message"),
    [
        ({"continue_": "junk"}, 400, "continue key is not valid"),
        ({"limit": "x"}, 400, "limit"),
        ({"resourceVersion": "99"}, 504, "Too large resource version: 99, current: 4"),
        ({"resourceVersionMatch": "Exact"}, 422, "unless resourceVersion is provided"),
        ({"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, "forbidden for resourceVersion"),
        ({"labelSelector": "a in (b)"}, 400, "knows no selector"),
    ],
    ids=["junk token", "junk limit", "version to come", "match of nothing", "exactly zero", "selector"],
)
def test_list_options_that_cannot_be(params: dict[str, str], status: int, message: str, api: FakeAPI, client: Client):
    put_pods(api, 3)
    answered, body = client.get(PODS, **params)
    assert (answered, body["kind"], body["code"]) == (status, "Status", status)
    assert message in body["message"]


def test_a_list_may_be_of_one_namespace_and_of_what_selectors_match(api: FakeAPI, client: Client):
    for name, namespace, node in (("a", "one", "n1"), ("b", "one", ""), ("a", "two", "n2")):
        labels = {"app": name}
        api.put(
            "Pod", {"metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": {"nodeName": node}}
        )
    assert client.items("/api/v1/namespaces/one/pods") == ["a", "b"]
    assert client.items("/api/v1/namespaces/none/pods") == []
    assert client.items(PODS, fieldSelector="metadata.name=a,metadata.namespace=two") == ["a"]
    assert client.items(PODS, fieldSelector="spec.nodeName!=") == ["a", "a"]
    assert client.items(PODS, labelSelector="app=b") == ["b"]
    assert client.items(PODS, labelSelector="app!=b", fieldSelector="spec.nodeName==n2") == ["a"]
    _, page = client.get(PODS, labelSelector="app=a", limit=1)
    assert page["metadata"]["continue"]
    assert "remainingItemCount" not in page["metadata"]


def test_an_exact_version_shows_the_past(api: FakeAPI, client: Client):
    put_pods(api, 2)
    then = api.revision
    api.delete("Pod", "p0")
    api.put("Pod", bare_pod("p2"))
    assert client.items(PODS, resourceVersion=then, resourceVersionMatch="Exact") == ["p0", "p1"]
    assert client.items(PODS, resourceVersion=then, resourceVersionMatch="NotOlderThan") == ["p1", "p2"]
    api.compact()
    assert client.get(PODS, resourceVersion=then, resourceVersionMatch="Exact")[0] == 410


def test_only_metadata(api: FakeAPI, client: Client, other: Client):
    api.put("Pod", bare_pod("a"))
    _, body = client.get(PODS, PARTIAL_LIST)
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [set(item) for item in body["items"]] == [{"metadata"}]
    with other.watch(PODS, PARTIAL) as watch:
        assert set(watch.event()["object"]) == {"kind", "apiVersion", "metadata"}
    assert client.get(PODS, PARTIAL)[0] == 406


def test_a_single_object(api: FakeAPI, client: Client):
    api.put("Node", {"metadata": {"name": "n1"}})
    api.put("Pod", bare_pod("a", namespace="x"))
    assert client.get("/api/v1/namespaces/x/pods/a") == (200, api.get("Pod", "a", "x"))
    assert client.get("/api/v1/nodes/n1") == (200, api.get("Node", "n1"))
    status, body = client.get("/api/v1/namespaces/x/pods/b")
    assert (status, body["message"], body["reason"]) == (404, 'pods "b" not found', "NotFound")


@pytest.mark.parametrize("path", ["/", "/api/v1/secrets", "/apis/apps/v1/pods", "/api/v1/namespaces/x/nodes"])
def test_an_unknown_path_is_not_found(path: str, client: Client):
    status, body = client.get(path)
    assert (status, body["reason"]) == (404, "NotFound")


# --- watches ---


def test_a_watch_shows_what_happens_after_its_version(api: FakeAPI, client: Client):
    put_pods(api, 2)
    since = api.revision
    api.delete("Pod", "p0")
    with client.watch(PODS, resourceVersion=since) as watch:
        api.put("Pod", bare_pod("p1", cpu="2"))
        api.put("Node", {"metadata": {"name": "n1"}})
        api.put("Pod", bare_pod("p2"))
        assert watch.events(3) == ["DELETED p0 4", "MODIFIED p1 5", "ADDED p2 7"]


def test_a_watch_from_nowhere_begins_with_everything(api: FakeAPI, client: Client):
    put_pods(api, 2)
    with client.watch(PODS) as watch:
        api.put("Pod", bare_pod("p2"))
        assert watch.events(3) == ["ADDED p0 2", "ADDED p1 3", "ADDED p2 4"]


def test_a_watch_ends_after_its_timeout_and_the_connection_goes_on(api: FakeAPI, client: Client):
    put_pods(api, 1)
    with client.watch(PODS, timeoutSeconds="0.01") as watch:
        assert watch.rest() == ["ADDED p0 2"]
    assert client.items(PODS) == ["p0"]


def test_bookmarks_go_to_those_who_want_them(api: FakeAPI, client: Client, other: Client):
    put_pods(api, 1)
    with client.watch(PODS, allowWatchBookmarks="true") as asked, other.watch(PODS) as plain:
        api.put("Node", {"metadata": {"name": "n1"}})
        assert api.bookmark("Pod") == 1
        assert api.end_watches("Pod") == 2
        assert asked.rest() == ["ADDED p0 2", "BOOKMARK 3"]
        assert plain.rest() == ["ADDED p0 2"]


def test_periodic_bookmarks(api: FakeAPI, client: Client):
    api.bookmark_every = 0.01
    with client.watch(PODS, resourceVersion=1, allowWatchBookmarks="true") as watch:
        assert watch.events(2) == ["BOOKMARK 1", "BOOKMARK 1"]


def test_a_watch_from_a_compacted_version_is_told_410_in_an_event(api: FakeAPI, client: Client):
    put_pods(api, 3)
    api.compact()
    with client.watch(PODS, resourceVersion=2) as watch:
        event = watch.event()
        assert watch.rest() == []
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == "too old resource version: 2 (4)"
    with client.watch(PODS, resourceVersion=4, timeoutSeconds="0.01") as watch:
        assert watch.rest() == []


def test_or_as_a_status(api: FakeAPI, client: Client):
    put_pods(api, 3)
    api.compact()
    api.expired_as_status = True
    assert client.get(PODS, watch=1, resourceVersion=2)[0] == 410


def test_the_initial_events_of_a_watch_list(api: FakeAPI, client: Client):
    put_pods(api, 2)
    api.watch_list = True
    options = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with client.watch(PODS, **options) as watch:
        assert watch.events(2) == ["ADDED p0 2", "ADDED p1 3"]
        bookmark = watch.event()
        api.put("Pod", bare_pod("p2"))
        assert watch.events(1) == ["ADDED p2 4"]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert bookmark["object"]["metadata"]["resourceVersion"] == "3"


def test_a_server_without_watch_list_forbids_it(client: Client):
    status, body = client.get(PODS, watch="1", sendInitialEvents="true", resourceVersionMatch="NotOlderThan")
    assert (status, body["reason"]) == (422, "Invalid")
    assert "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled" in body["message"]


# --- restarts and restores ---


def test_a_restart_keeps_the_port_and_the_contents(api: FakeAPI, client: Client):
    put_pods(api, 2)
    _, first = client.get(PODS, limit=1)
    api.stop()
    with pytest.raises(ConnectionResetError):  # the connection that was kept alive
        client.get(PODS)
    with pytest.raises(ConnectionRefusedError):
        client.get(PODS)
    api.start()
    assert client.items(PODS) == ["p0", "p1"]
    assert client.items(PODS, continue_=first["metadata"]["continue"]) == ["p1"]


def test_a_restored_backup_has_lower_versions(api: FakeAPI, client: Client):
    put_pods(api, 1)
    backup = api.revision
    api.put("Pod", bare_pod("p0", cpu="2"))
    api.put("Pod", bare_pod("p1"))
    api.delete("Pod", "p1")
    late = api.revision
    api.rewind(backup)
    status, body = client.get(PODS)
    assert (status, body["metadata"]["resourceVersion"]) == (200, str(backup))
    assert [item["metadata"]["resourceVersion"] for item in body["items"]] == [str(backup)]
    assert client.get(PODS, resourceVersion=late)[0] == 504
    with client.watch(PODS, resourceVersion=late, allowWatchBookmarks="1") as watch:
        assert api.bookmark("Pod") == 0
        put_pods(api, 4)
        assert watch.events(1) == [f"ADDED p3 {late + 1}"]
    api.compact()
    with pytest.raises(ValueError, match="revision 2 is not in"):
        api.rewind(backup)


# --- many objects, and what tests see ---


def test_loading_leaves_no_history(api: FakeAPI, client: Client):
    assert api.load("Pod", (bare_pod(f"p{number:04}") for number in range(1000))) == 1000
    assert len(client.items(PODS)) == 1000
    with client.watch(PODS, resourceVersion=5) as watch:
        assert watch.event()["object"]["code"] == 410
    with client.watch(PODS), pytest.raises(RuntimeError, match="is open"):
        api.load("Pod", [])


def test_an_old_half_of_the_history_is_forgotten(api: FakeAPI, client: Client):
    api.storage.HISTORY = 10
    put_pods(api, 21)
    with client.watch(PODS, resourceVersion=5) as watch:
        assert watch.event()["object"]["message"] == "too old resource version: 5 (12)"


def test_requests_are_recorded(api: FakeAPI, client: Client):
    put_pods(api, 2)
    _, first = client.get(PODS, limit=1)
    client.get(PODS, limit=1, continue_=first["metadata"]["continue"])
    client.get("/healthz")
    assert [(r.verb, r.kind, r.page, r.status) for r in api.requests] == [
        ("list", "Pod", 1, 200),
        ("list", "Pod", 2, 200),
        ("get", "", 1, 404),
    ]
    assert api.asked("list", "Pod")[0].params == {"limit": "1"}
    assert api.asked("list")[0].headers["accept"] == "application/json"
    assert api.requests[0].time <= api.requests[1].time


def test_lines_are_counted_and_waited_for(api: FakeAPI, client: Client):
    with client.watch(PODS, resourceVersion=1) as watch:
        put_pods(api, 3)
        api.wait_for(lambda: api.lines_sent("Pod") == 3)
        assert len(watch.events(3)) == 3


def test_what_does_not_come_is_told_with_the_latest_requests(api: FakeAPI, client: Client):
    client.get(PODS)
    with pytest.raises(TimeoutError, match=r"list Pod \{\} -> 200"):
        api.wait_for(lambda: False, timeout=0.0)
