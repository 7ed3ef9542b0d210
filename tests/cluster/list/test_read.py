"""A live cluster read once for one pod: what is asked for, what comes of it, and what may go wrong."""

import gc
import signal
import threading

import pytest

from extender.cluster.list import lister
from extender.cluster.list import read as reading
from extender.cluster.list.read import read_cluster, read_for_pod
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.profile import UNCONFIGURED, KubeScheduler, PreemptionPolicy, Profile, Protection
from extender.errors import ClusterLost
from extender.k8s.version.found import COMPONENT
from tests.builders import budget, incoming, namespace, node, placed, pod, thing, typed
from tests.cluster.list.rig import lists, put, read
from tests.cluster.watch.reflector_rig import server_at
from tests.cluster.watch.source_rig import following
from tests.device_builders import claim, device_class, using_claims
from tests.fakes.api_server import Answer, CutBody, Fault, Hang

DEEP = b'{"kind":"NodeList","metadata":{},"items":[' + b"[" * 5_000 + b"]" * 5_000 + b"]}"

NO_SPREADING = KubeScheduler((Profile(default_spread_constraints=()),))


def limit_range(name, namespace="default", **item):
    return thing("LimitRange", name, namespace=namespace, spec={"limits": [{"type": "Container", **item}]})


@pytest.fixture
def shop(api):
    """Two nodes, a pod that runs, one that waits, and objects of kinds that are not requested."""
    put(api, [node("n1").raw, node("n2").raw, placed(pod("a"), "n1"), incoming(), budget(), namespace("default")])
    put(api, [thing("Service", "s", namespace="default"), thing("StorageClass", "fast")])
    return api


# --- what is read -----------------------------------------------------------------------------------------------------


def test_the_pod_comes_first_and_then_the_kinds_that_it_needs(shop):
    found = read(shop, scheduler=NO_SPREADING)
    assert lists(shop) == [
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/events involvedObject.kind=Pod,involvedObject.name=incoming",
        "/api/v1/namespaces/default/pods metadata.name=incoming",
        f"/api/v1/namespaces/kube-system/pods component={COMPONENT}",
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/policy/v1/poddisruptionbudgets",
        "/version",
    ]
    assert {one.verb for one in shop.requests} == {"list", "get"}
    assert [one.metadata.name for one in found.objects.nodes] == ["n1", "n2"]
    assert [one.key for one in found.objects.pods] == ["default/a", "default/incoming"]
    assert (len(found.objects.budgets), found.objects.services, found.objects.unreadable_tables) == (1, (), ())
    assert found.pod is found.objects.pods[1]
    assert (found.warnings, found.scheduler, found.found) == ((), NO_SPREADING, None)


def test_only_pods_are_read_where_there_is_no_such_pod_for_names_that_may_be_meant(shop):
    found = read(shop, ("default", "missing"))
    assert (found.pod, found.objects.nodes, found.history and found.history.preempted) == (None, (), None)
    assert len(found.objects.pods) > 0
    assert "/api/v1/nodes" not in lists(shop)


def test_names_reach_the_server_as_they_are(shop):
    found = read(shop, ("../kube-system", "a,b=c"))
    assert found.pod is None
    assert r"metadata.name=a\,b\=c" in " ".join(lists(shop))
    assert not any(one.path.startswith("/api/v1/namespaces/../") for one in shop.requests)


def test_a_manifest_needs_no_pod_of_its_name(shop):
    given = typed(incoming("new"))
    found = read(shop, given)
    assert found.pod is given
    assert found.history is None
    assert not any("metadata.name" in one or "events" in one for one in lists(shop))
    assert "/api/v1/namespaces/default/services" in lists(shop)


def test_what_admission_reads_is_read_for_a_manifest_that_is_yet_to_be_admitted(shop):
    put(
        shop,
        [limit_range("in"), limit_range("out", namespace="other"), thing("ResourceQuota", "q", namespace="default")],
    )
    put(shop, [thing("RuntimeClass", name, handler="h") for name in ("gvisor", "kata")])
    given = incoming("new", runtimeClassName="kata")
    found = read(shop, typed(given), NO_SPREADING, manifest=given)
    assert [one.metadata.name for one in found.objects.limit_ranges] == ["in"]
    assert [one.metadata.name for one in found.objects.resource_quotas] == ["q"]
    assert [one.metadata.name for one in found.objects.runtime_classes] == ["kata"]
    assert "/apis/scheduling.k8s.io/v1/priorityclasses" in lists(shop)


def test_a_limit_range_may_give_a_manifest_devices_of_which_it_does_not_speak(shop):
    put(shop, [limit_range("gpus", default={"example.com/gpu": "1"}), device_class()])
    assert [one.metadata.name for one in read(shop, typed(incoming()), manifest=incoming()).objects.device_classes] == [
        "gpu"
    ]
    assert read(shop, typed(incoming())).objects.device_classes == ()


def test_a_manifest_is_admitted_without_what_may_not_be_listed(shop):
    for kind in ("LimitRange", "ResourceQuota", "RuntimeClass"):
        shop.forbid(kind, "list")
    given = incoming("new", runtimeClassName="kata")
    found = read(shop, typed(given), NO_SPREADING, manifest=given)
    assert found.objects.unreadable_tables == ("limit_ranges", "resource_quotas", "runtime_classes")
    assert found.warnings == tuple(
        f"no permission to list {kind}: manifests are admitted without them"
        for kind in ("LimitRange", "ResourceQuota", "RuntimeClass")
    )
    shop.requests.clear()
    assert read(shop).warnings == ()


def test_claims_of_a_nominated_pod_are_read_once_it_is_known(shop):
    put(shop, [device_class(), claim("its"), incoming("n", status={"nominatedNodeName": "n1"}, **using_claims("its"))])
    found = read(shop)
    assert [one.metadata.name for one in found.objects.resource_claims] == ["its"]
    assert [one.metadata.name for one in found.objects.device_classes] == ["gpu"]


def test_annotations_are_kept_that_the_policy_reads(shop):
    shop.put("Pod", incoming(metadata={"annotations": {"keep": "1", "other": "2"}}))
    protection = Protection("mine", annotations=(("keep", None),))
    found = read(shop, scheduler=UNCONFIGURED.with_preemption(PreemptionPolicy(protections=(protection,)), 1))
    assert found.pod is not None
    assert found.pod.metadata.annotations == {"keep": "1"}


def test_the_version_is_that_of_kube_schedulers_pods_beside_the_api_server(shop):
    shop.version = "v1.34.1"
    containers = [{"name": COMPONENT, "image": "registry.example/kube-scheduler:v1.33.4"}]
    static = pod(COMPONENT, namespace="kube-system", labels={"component": COMPONENT}, containers=containers)
    shop.put("Pod", placed(static, "n1"))
    seen = []

    def load(found):
        seen.append(found)
        return kube_scheduler_of({}, version=f"1.{found.minor}")

    found = read_for_pod(server_at(shop.url), ("default", "incoming"), load, timeout=20)
    assert (found.scheduler.version, seen) == ("1.33", [found.found])


def test_progress_counts_the_objects_of_each_kind(shop, monkeypatch):
    monkeypatch.setattr(lister, "PAGE_SIZE", 3)
    for number in range(6):
        shop.put("Pod", incoming(f"p{number}"))
    seen: list[tuple[str, int, int | None]] = []
    read(shop, on_progress=lambda *one: seen.append(one))
    assert [one for one in seen if one[0] == "Pod"] == [("Pod", 3, 8), ("Pod", 6, 8), ("Pod", 8, 8)]
    assert {one[0] for one in seen} == {"Pod", "Node", "PodDisruptionBudget", "Namespace", "Service"}


def test_the_cycle_collector_is_as_before(shop):
    assert gc.isenabled()
    read(shop)
    assert gc.isenabled()
    shop.forbid("Pod")
    with pytest.raises(ClusterLost):
        read(shop)
    assert gc.isenabled()
    gc.unfreeze()


def test_an_interrupt_while_a_finalizer_runs_ends_the_next_read(shop):
    class Interrupted:
        def __init__(self):
            self.cycle = self

        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    read(shop)
    Interrupted()  # as a connection that an earlier read left
    gc.freeze()
    with pytest.raises(KeyboardInterrupt):
        read(shop)


# --- what may not be read ---------------------------------------------------------------------------------------------


def test_an_optional_kind_that_is_forbidden_is_named_and_its_plugins_are_not_evaluated(shop):
    shop.forbid("Service", "list")
    found = read(shop)
    assert found.objects.unreadable_tables == ("services",)
    assert found.warnings == ("no permission to list Service: plugins that read them are not evaluated",)


@pytest.mark.parametrize("kind", ["Node", "Pod", "PodDisruptionBudget"])
def test_a_kind_that_every_decision_reads_must_be_allowed(shop, kind):
    shop.forbid(kind, "list")
    plural = {"Node": "nodes", "Pod": "pods", "PodDisruptionBudget": "poddisruptionbudgets"}[kind]
    with pytest.raises(ClusterLost, match=rf"no permission to list {plural}, which is required: 403 Forbidden: "):
        read(shop)


def test_a_kind_that_the_server_does_not_have_has_no_objects(shop):
    for kind in ("ResourceClaim", "ResourceSlice", "DeviceClass", "DeviceTaintRule"):
        shop.remove_resource(kind)
    shop.put("Pod", incoming(requests={"example.com/gpu": "1"}))
    found = read(shop)
    assert (found.objects.unreadable_tables, found.objects.resource_slices, found.warnings) == ((), (), ())
    assert {"/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta2/resourceslices"} <= set(
        lists(shop)
    )


def test_an_object_that_cannot_be_read_is_counted_and_costs_no_other(shop):
    shop.put("Pod", pod("broken", cpu="a lot"))
    shop.put("Pod", pod("worse", nodeName=7))
    found = read(shop)
    assert [one.metadata.name for one in found.objects.pods] == ["a", "incoming"]
    (warning,) = found.warnings
    assert warning.startswith("2 objects of kind Pod skipped, such as default/broken: ")


def test_a_pod_that_cannot_be_read_is_an_error(shop):
    shop.put("Pod", incoming(cpu="a lot"))
    with pytest.raises(ClusterLost, match="pod default/incoming cannot be read: "):
        read(shop)


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [Answer(429, retry_after=0), Answer(503), CutBody(40)])
def test_what_may_pass_is_tried_again(shop, action):
    shop.faults.add(Fault("list", "Node", action, times=2))
    assert len(read(shop).objects.nodes) == 2


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (Answer(500, "broken"), "cannot list nodes: 500 InternalError: broken"),
        (Answer(401), "cannot list nodes: 401 Unauthorized"),
        (Answer(200, body=b"<html>"), "cannot list nodes: the response is not a list: "),
        (Answer(200, body=b'{"kind":"PodList","metadata":{}}'), "the response is a 'PodList', not a NodeList"),
    ],
)
def test_what_does_not_pass_is_an_error_that_names_the_kind(shop, action, message):
    shop.faults.add(Fault("list", "Node", action, times=None))
    with pytest.raises(ClusterLost, match=message):
        read(shop)


def test_a_list_that_is_nested_deeply_is_no_traceback(shop):
    """How deeply a list may be nested differs between versions of Python."""
    shop.faults.add(Fault("list", "Node", Answer(200, body=DEEP), times=None))
    message = ""
    try:
        read(shop)
    except ClusterLost as error:
        message = str(error)
    assert message == "" or "cannot list nodes: the response is not a list: maximum recursion depth" in message


def test_a_list_whose_continue_token_has_expired_is_read_whole(shop, monkeypatch):
    monkeypatch.setattr(lister, "PAGE_SIZE", 1)
    shop.faults.add(Fault("list", "Pod", Answer(410), page=2))
    assert len(read(shop).objects.pods) == 2
    assert [one.params.get("limit") for one in shop.requests if one.path == "/api/v1/pods"][-1] is None


def test_a_server_that_cannot_be_reached_is_an_error(api):
    url = api.url
    api.stop()
    with pytest.raises(ClusterLost, match=r"cannot list pods: 127\.0\.0\.1:[0-9]+: .*refused"):
        read_for_pod(server_at(url), ("default", "incoming"), lambda _: UNCONFIGURED, timeout=20)


@pytest.mark.parametrize(("kind", "plural"), [("Pod", "pods"), ("PodDisruptionBudget", "poddisruptionbudgets")])
def test_a_server_that_does_not_answer_in_time_is_an_error_that_names_what_is_missing(shop, kind, plural):
    hang = Hang()
    shop.faults.add(Fault("list", kind, hang, times=None))
    with pytest.raises(ClusterLost, match=rf"timed out after 0\.2s reading {plural} from http://127\.0\.0\.1"):
        read(shop, timeout=0.2)
    hang.release()


def test_where_one_list_fails_the_others_end_with_their_page(shop, monkeypatch):
    """`extender why --wait` reads again while its API server restarts: reads must not pile up."""
    monkeypatch.setattr(lister, "PAGE_SIZE", 1)
    put(shop, [pod(f"p{number}") for number in range(4)])
    hang, has_failed = Hang(), threading.Event()
    shop.faults.add(Fault("list", "Node", hang))
    shop.forbid("Node", "list")
    reading = []

    def on_progress(kind, *_):
        if kind == "Pod":
            reading.append(threading.current_thread())
            hang.release()
            has_failed.wait(10)

    with pytest.raises(ClusterLost, match="no permission to list nodes"):
        read(shop, on_progress=on_progress)
    has_failed.set()
    reading[0].join(10)
    assert sum(one.path == "/api/v1/pods" for one in shop.requests) == 2  # the next page is asked for ahead


@pytest.mark.parametrize("action", [Hang(), Answer(429, retry_after=10)])
def test_events_that_do_not_come_in_time_cost_no_answer(shop, action, monkeypatch):
    monkeypatch.setattr(reading, "MAX_EVENTS_SECONDS", 0.05)
    shop.faults.add(Fault("list", "Event", action, times=None))
    found = read(shop)
    assert found.pod is not None
    assert found.history is not None
    assert (found.history.notes, len(found.objects.nodes)) == (["Events could not be read within 0.05s"], 2)
    shop.faults.clear()


# --- the whole cluster ------------------------------------------------------------------------------------------------


def test_the_whole_cluster_is_read_with_the_kinds_of_the_policy(shop):
    shop.version = "v1.35.2"
    found = read_cluster(server_at(shop.url), PreemptionPolicy(), timeout=20)
    assert (len(found.objects.nodes), len(found.objects.pods), len(found.objects.services)) == (2, 2, 1)
    assert (found.found and found.found.minor, found.warnings) == (35, ())
    assert {one.kind for one in shop.requests if one.kind} == {one.kind for one in RESOURCES}
    assert not any(one.params.get("watch") for one in shop.requests)
    read_cluster(server_at(shop.url), PreemptionPolicy(ranking=("PodGroups",)), timeout=20)
    assert {one.kind for one in POD_GROUP_RESOURCES} <= {one.kind for one in shop.requests}


@pytest.mark.anyio
async def test_the_whole_cluster_equals_what_a_watch_holds(shop):
    put(shop, [device_class(), claim("c"), thing("PriorityClass", "high", value=7)])
    found = read_cluster(server_at(shop.url), PreemptionPolicy(), timeout=20).objects
    async with following(shop.url) as rig:
        await rig.until(lambda: rig.source.problem() is None)
        assert rig.cache.snapshot().frozen() == found
