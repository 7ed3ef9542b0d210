"""What policies of preemption read is in the cache of a live cluster: groups, annotations, readiness, generations."""

import pytest

from extender.cluster.files import dump
from extender.cluster.watch.list_watch import POD_GROUP_RESOURCES, RESOURCES
from tests.builders import budget, node, placed, pod, stored_cluster, thing
from tests.cluster.watch.reflector_rig import server_at
from tests.cluster.watch.source_rig import following
from tests.fakes.api_server import FakeAPI

pytestmark = pytest.mark.anyio

NATIVE, COSCHEDULING = (one.kind for one in POD_GROUP_RESOURCES)
PATH = {one.kind: one.path for one in POD_GROUP_RESOURCES}
OF_THE_FAKE = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


@pytest.fixture
def api(api_either_way):
    return api_either_way


@pytest.fixture
def other(api):
    """The server that has the PodGroups of scheduler-plugins."""
    with FakeAPI() as fake:
        fake.watch_list = api.watch_list
        yield fake


class Aggregated:
    """One API server that hands an API over to another one, to which those PodGroups are its own."""

    def __init__(self, api, other):
        self._api, self._other = server_at(api.url), server_at(other.url)

    def get(self, path, params=None, **options):
        server, path = self._of(path)
        return server.get(path, params, **options)

    def stream(self, path, params=None, **options):
        server, path = self._of(path)
        return server.stream(path, params, **options)

    def close(self):
        self._api.close()
        self._other.close()

    def _of(self, path):
        return (self._other, OF_THE_FAKE) if path == PATH[COSCHEDULING] else (self._api, path)


class Serving(Aggregated):
    """An API server that has its own PodGroups in one version only."""

    def __init__(self, api, version):
        super().__init__(api, api)
        self.version = version
        self.asked = []

    def _of(self, path):
        if "/apis/scheduling.k8s.io/v1" in path and path.endswith("/podgroups"):
            self.asked.append(path.split("/")[3])
            return self._api, OF_THE_FAKE if self.asked[-1] == self.version else "/apis/scheduling.k8s.io/v0/podgroups"
        return self._api, path


def gang(name, minimum):
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    return thing("PodGroup", name, namespace="shop", spec=spec)


def members(name, minimum):
    return thing("PodGroup", name, namespace="shop", spec={"minMember": minimum})


def minimums(rig):
    """Return the minimums of the groups of either sort, by name."""
    objects = rig.cache.snapshot().frozen()
    return [{one.metadata.name: one.minimum for one in of} for of in (objects.pod_groups, objects.coscheduling_groups)]


# --- pod groups -----------------------------------------------------------------------------------------------------


async def test_pod_groups_are_not_followed_unless_they_are_asked_for(api):
    api.put("PodGroup", gang("train", 3))
    async with following(api.url) as rig:
        await rig.read()
        assert [view.kind for view in rig.source.reflector_statuses()] == [one.kind for one in RESOURCES]
        snapshot = rig.cache.snapshot()
        assert not snapshot.objects.pod_groups
        assert not snapshot.unreadable_tables  # there are none as far as decisions go
        assert await rig.source.verification.verify(NATIVE) == 0
    assert not [request for request in api.requests if "podgroups" in request.path]


async def test_pod_groups_of_both_apis_are_followed(api, other):
    api.put("PodGroup", gang("train", 3))
    api.put("PodGroup", gang("both", 2))
    other.put("PodGroup", members("both", 7))
    async with following(Aggregated(api, other), pod_groups=True) as rig:
        await rig.read()
        assert minimums(rig) == [{"train": 3, "both": 2}, {"both": 7}]
        api.delete("PodGroup", "train", "shop")
        other.put("PodGroup", members("both", 8))
        other.put("PodGroup", members("sort", 4))
        await rig.until(lambda: minimums(rig) == [{"both": 2}, {"both": 8, "sort": 4}])
        views = {view.kind: view for view in rig.source.reflector_statuses()}
        assert [views[kind].phase for kind in (NATIVE, COSCHEDULING)] == ["watching", "watching"]
        assert sum(view.skipped for view in views.values()) == 0
        assert [await rig.source.verification.verify(kind) for kind in (NATIVE, COSCHEDULING)] == [0, 0]


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
async def test_pod_groups_are_read_in_whichever_version_is_served(api, version):
    api.put("PodGroup", gang("train", 3))
    server = Serving(api, version)
    async with following(server, pod_groups=True) as rig:
        await rig.read()
        assert minimums(rig) == [{"train": 3}, {}]
        api.put("PodGroup", gang("train", 4))
        await rig.until(lambda: minimums(rig) == [{"train": 4}, {}])
        assert rig.state(NATIVE).phase == "watching"
        assert set(server.asked) <= {"v1beta1", "v1alpha3", version}
        assert await rig.source.verification.verify(NATIVE) == 0


async def test_an_upgrade_that_drops_a_version_goes_on_with_the_next(api):
    api.put("PodGroup", gang("train", 3))
    server = Serving(api, "v1alpha2")
    async with following(server, pod_groups=True) as rig:
        await rig.read()
        server.version = "v1alpha3"
        api.drop_connections()
        api.put("PodGroup", gang("more", 2))
        await rig.until(lambda: minimums(rig) == [{"train": 3, "more": 2}, {}])
        assert server.asked[-1] == "v1alpha3"


async def test_pod_groups_that_a_cluster_does_not_have_are_known_not_to_be_there(api):
    for one in POD_GROUP_RESOURCES:
        api.remove_resource(one.kind)
    async with following(api.url, pod_groups=True) as rig:
        await rig.read()
        assert [rig.state(one.kind).phase for one in POD_GROUP_RESOURCES] == ["absent", "absent"]
        assert rig.source.problem() is None
        assert not rig.cache.snapshot().unreadable_tables


async def test_pod_groups_that_may_not_be_read_are_unread_also_in_a_copy(api, tmp_path):
    for one in POD_GROUP_RESOURCES:
        api.forbid(one.kind)
    async with following(api.url, pod_groups=True) as rig:
        await rig.read()
        assert rig.source.problem() is None
        assert rig.cache.snapshot().unreadable_tables == {"pod_groups", "coscheduling_groups"}
        dump.write_file(dump.encode_list(rig.cache.snapshot().frozen()), tmp_path / "cluster.json")
    assert stored_cluster(tmp_path / "cluster.json").unreadable_tables == ("coscheduling_groups", "pod_groups")


# --- pods and budgets -----------------------------------------------------------------------------------------------


def annotated(name, on, **annotations):
    keys = {key.replace("_", "/"): value for key, value in annotations.items()}
    return placed(pod(name, metadata={"annotations": keys}), on)


async def test_annotations_that_are_configured_are_kept_of_pods_and_of_pods_only(api, tmp_path):
    api.put("Node", node("n1").raw)
    api.put("Pod", annotated("a", "n1", **{"shop/keep": "yes", "shop/other": "no"}))
    api.put("PodDisruptionBudget", budget(app="a") | {"metadata": {"name": "b", "annotations": {"shop/keep": "yes"}}})
    keys = frozenset({"shop/keep"})
    async with following(api.url, pod_annotations=keys) as rig:
        await rig.read()
        found = rig.cache.snapshot().frozen()
        dump.write_file(dump.encode_list(found, keys), tmp_path / "cluster.json")
    assert found.pods[0].metadata.annotations == {"shop/keep": "yes"}
    assert found.budgets[0].metadata.annotations is None
    assert stored_cluster(tmp_path / "cluster.json").pods == found.pods


async def test_a_pod_that_becomes_ready_is_ready_in_the_cache_too(api):
    api.put("Node", node("n1").raw)
    api.put("Pod", placed(pod("a"), "n1"))
    async with following(api.url) as rig:
        await rig.read()
        assert [one.is_ready for one in rig.cache.snapshot().pods_on("n1")] == [False]
        api.put("Pod", placed(pod("a", status={"conditions": [{"type": "Ready", "status": "True"}]}), "n1"))
        await rig.until(lambda: rig.holds(api))
        assert [one.is_ready for one in rig.cache.snapshot().pods_on("n1")] == [True]


async def test_a_budget_says_whether_its_status_is_of_this_spec(api):
    one = budget(app="a")
    one["metadata"]["generation"], one["status"]["observedGeneration"] = 5, 4
    api.put("PodDisruptionBudget", one)
    async with following(api.url) as rig:
        await rig.read()
        (found,) = rig.cache.snapshot().objects.budgets.values()
        assert (found.metadata.generation, found.status.observed_generation) == (5, 4)
