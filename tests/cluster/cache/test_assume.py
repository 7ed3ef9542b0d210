"""What we know of pods before a watch shows it: how long it stands, and what stands again when it goes."""

import random

import pytest
from msgspec.structs import replace

from extender.cluster.cache import cache as cache_module
from extender.cluster.cache.assume import (
    ASSUMPTION_TTL_SECONDS,
    MAX_UNKNOWN_PREEMPTOR_BYTES,
    MAX_UNKNOWN_PREEMPTORS,
)
from extender.cluster.cache.cache import Change, ClusterCache
from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from tests.builders import cluster, incoming, node, pod, stored_cluster, typed
from tests.fakes.clock import Clock
from tests.profiles import by_profile

URGENT_ONE = typed(incoming("urgent", "4", priority=100, metadata={"resourceVersion": "7"}))
MODEST = typed(incoming("modest", "1", priority=50))


class Shop(ClusterCache):
    """n1: 4 cores, on which `a` and `b` take one each. `urgent`, 4 cores, and `new`, 2 cores, wait."""

    def __init__(self, *more, without=()) -> None:
        self.clock = Clock()
        super().__init__(self.clock)
        waiting = [incoming("urgent", "4", priority=100, metadata={"resourceVersion": "7"}), pod("new", "2"), *more]
        running = [pod("a", priority=10), pod("b", priority=10)]
        objects = stored_cluster(cluster({node("n1"): running, node("n2", cpu="1"): []}, waiting=waiting))
        pods = tuple(one for one in objects.pods if one.metadata.name not in without)
        self.replace(replace(objects, pods=pods))

    def pod(self, name):
        """As decisions see it."""
        return self.snapshot().objects.pods["default", name]

    def from_api(self, name):
        """Return the pod as the API server last sent it."""
        return self.api_object("Pod", ("default", name))

    def bind(self, name, node="n1"):
        self.assumed.assume_bound("default", name, f"uid-{name}", node)

    def preempt(self, *victims, node="n1", preemptor=URGENT_ONE):
        self.assumed.assume_preempted(preemptor, node, [self.pod(name) for name in victims])

    def shows(self, one, deleted=False):
        """The watch brings a pod, newer than before."""
        version = str(int(one.metadata.resource_version or 10) + 1)
        self.apply(Change("Pod", replace(one, metadata=replace(one.metadata, resource_version=version)), deleted))

    @property
    def used(self):
        """Millicores on n1."""
        snapshot = self.snapshot()
        return int(snapshot.used[0, snapshot.node_row["n1"]])

    @property
    def nominated(self):
        return [one.metadata.name for one in self.snapshot().nominees]

    @property
    def leaving(self):
        pods = self.snapshot().objects.pods.values()
        return {one.metadata.name for one in pods if one.metadata.deletion_timestamp is not None}

    def takes(self, one, node="n1"):
        return Evaluation(self.snapshot(), one, Profile()).to_dict()["filter"][node]["code"] == "Success"


def on(one, node):
    return replace(one, spec=replace(one.spec, node_name=node))


def nominated_to(one, node):
    return replace(one, status=replace(one.status, nominated_node_name=node))


def labelled(one, **labels):
    return replace(one, metadata=replace(one.metadata, labels=labels))


# --- what we bound --------------------------------------------------------------------------------------------------


def test_a_bind_counts_at_once_and_is_not_what_the_api_server_says():
    shop = Shop()
    assert shop.used == 2000
    shop.bind("new")
    assert shop.used == 4000
    assert not shop.takes(MODEST)
    assert shop.from_api("new").spec.node_name == ""
    assert len(shop.assumed) == 1


@pytest.mark.parametrize(("node", "used"), [("n1", 4000), ("n2", 2000)])
def test_a_bind_is_replaced_by_what_the_watch_shows(node, used):
    shop = Shop()
    shop.bind("new")
    shop.shows(on(shop.from_api("new"), node))
    assert (shop.pod("new").spec.node_name, shop.used, len(shop.assumed)) == (node, used, 0)


def test_an_update_that_does_not_show_the_bind_yet_does_not_undo_it():
    shop = Shop()
    shop.bind("new")
    shop.shows(labelled(shop.from_api("new"), team="blue"))
    assert shop.pod("new").metadata.labels == {"team": "blue"}
    assert shop.used == 4000
    assert shop.from_api("new").spec.node_name == ""


def test_a_bind_of_a_pod_that_is_not_in_the_cache_assumes_nothing():
    shop = Shop()
    shop.assumed.assume_bound("default", "unknown", "uid-unknown", "n1")
    shop.assumed.assume_bound("default", "new", "another uid", "n1")
    assert (shop.used, len(shop.assumed)) == (2000, 0)


def test_what_is_not_seen_within_30_s_did_not_come_about():
    shop = Shop()
    shop.bind("new")
    shop.preempt("a")
    shop.clock.now += ASSUMPTION_TTL_SECONDS - 0.1
    assert (shop.used, shop.nominated, shop.leaving) == (4000, ["urgent"], {"a"})
    shop.clock.now += 0.1
    assert (shop.used, shop.nominated, shop.leaving) == (2000, [], set())
    assert len(shop.assumed) == 0


# --- preemptions that we helped with --------------------------------------------------------------------------------


def test_a_preemption_nominates_and_marks_the_victims_as_leaving():
    shop = Shop()
    assert shop.takes(MODEST)
    shop.preempt("a", "b")
    assert (shop.nominated, shop.leaving) == (["urgent"], {"a", "b"})
    assert shop.used == 2000  # they are still there
    assert not shop.takes(MODEST)  # which must not take the room from a more important one
    assert (shop.from_api("a").metadata.deletion_timestamp, shop.from_api("urgent").status.nominated_node_name) == (
        None,
        "",
    )


def test_each_part_of_a_preemption_stands_until_the_watch_shows_it():
    shop = Shop()
    shop.preempt("a", "b")
    shop.shows(nominated_to(shop.from_api("urgent"), "n1"))
    assert (shop.nominated, shop.leaving, len(shop.assumed)) == (["urgent"], {"a", "b"}, 2)
    shop.shows(
        replace(shop.from_api("a"), metadata=replace(shop.from_api("a").metadata, deletion_timestamp="2026-01-01"))
    )
    assert (shop.leaving, len(shop.assumed)) == ({"a", "b"}, 1)
    assert shop.pod("a").metadata.deletion_timestamp == "2026-01-01"
    shop.shows(shop.from_api("b"), deleted=True)
    assert (shop.leaving, len(shop.assumed), shop.used) == ({"a"}, 0, 1000)


@pytest.mark.parametrize("knows", [True, False])
def test_a_preemption_is_withdrawn_when_kube_scheduler_asks_without_knowing_of_it(knows):
    shop = Shop()
    shop.preempt("a", "b")
    shop.assumed.forget_preemption(nominated_to(URGENT_ONE, "n1") if knows else URGENT_ONE)
    assert shop.nominated == (["urgent"] if knows else [])
    assert shop.leaving == ({"a", "b"} if knows else set())
    assert len(shop.assumed) == (3 if knows else 0)


def test_a_question_about_another_pod_withdraws_nothing():
    shop = Shop()
    shop.preempt("a")
    shop.assumed.forget_preemption(MODEST)
    shop.assumed.forget_preemption(replace(URGENT_ONE, metadata=replace(URGENT_ONE.metadata, uid="another")))
    assert (shop.nominated, shop.leaving) == (["urgent"], {"a"})


def test_a_second_preemption_elsewhere_takes_the_nomination_along():
    shop = Shop()
    shop.preempt("a")
    shop.preempt(node="n2")
    assert [one.status.nominated_node_name for one in shop.snapshot().nominees] == ["n2"]
    shop.assumed.forget_preemption(URGENT_ONE)
    assert (shop.nominated, shop.leaving) == ([], set())


def test_a_victim_that_we_bound_a_moment_ago_leaves_from_where_it_is():
    shop = Shop()
    shop.bind("new")
    shop.preempt("new")
    assert (shop.leaving, shop.used) == ({"new"}, 4000)
    assert shop.pod("new").spec.node_name == "n1"
    shop.shows(on(shop.from_api("new"), "n1"))
    assert (shop.leaving, shop.used) == ({"new"}, 4000)
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert (shop.leaving, shop.used) == (set(), 4000)


def test_what_is_assumed_beside_it_does_not_hide_where_a_pod_was_really_bound():
    shop = Shop()
    shop.bind("new")
    shop.preempt("new")
    shop.shows(on(shop.from_api("new"), "n2"))
    assert (shop.pod("new").spec.node_name, shop.leaving) == ("n2", {"new"})


def test_a_preemption_may_be_answered_again_and_again():
    shop = Shop()
    for _ in range(3000):
        shop.preempt("a")
    shop.shows(shop.from_api("urgent"))
    assert (shop.nominated, shop.leaving) == (["urgent"], {"a"})


def test_a_bound_preemptor_waits_no_more():
    shop = Shop()
    shop.preempt("a", "b")
    for name in "ab":
        shop.shows(shop.from_api(name), deleted=True)
    shop.bind("urgent")
    assert (shop.used, shop.nominated) == (4000, [])


# --- pods that the cache does not hold yet ------------------------------------------------------------------------


def test_a_preemptor_that_no_watch_has_shown_yet_is_nominated_all_the_same():
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    assert shop.nominated == ["urgent"]
    assert shop.from_api("urgent") is None
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert ("default", "urgent") not in shop.snapshot().objects.pods


def test_a_preemptor_whose_name_another_pod_bears_changes_nothing():
    """kube-scheduler may be behind, and the pod that the cache holds the one that is there."""
    shop = Shop()
    another = replace(URGENT_ONE, metadata=replace(URGENT_ONE.metadata, uid="another"))
    shop.preempt("a", preemptor=another)
    assert (shop.nominated, shop.leaving, len(shop.assumed)) == ([], set(), 0)
    assert shop.pod("urgent") == shop.from_api("urgent")


def test_what_the_watch_then_shows_of_it_is_kept_also_if_the_request_showed_the_same_version():
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    assert shop.apply(Change("Pod", URGENT_ONE))
    assert shop.nominated == ["urgent"]
    assert shop.from_api("urgent") == URGENT_ONE
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert shop.pod("urgent") == URGENT_ONE


def test_H6_an_event_always_replaces_a_preemptor_that_only_a_request_showed_whatever_its_version():
    shop = Shop(without=["urgent"])
    claims = replace(URGENT_ONE, metadata=replace(URGENT_ONE.metadata, resource_version="9" * 18))
    shop.preempt("a", preemptor=claims)
    other = replace(URGENT_ONE, metadata=replace(URGENT_ONE.metadata, uid="another", resource_version="3"))
    assert shop.apply(Change("Pod", other))
    assert shop.pod("urgent") == shop.from_api("urgent") == other
    assert shop.nominated == []


def test_H6_the_deletion_of_a_preemptor_that_only_a_request_showed_ends_its_nomination_for_good():
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    assert shop.apply(Change("Pod", URGENT_ONE, deleted=True))
    assert shop.nominated == []
    shop.preempt("b")
    assert (shop.nominated, shop.leaving) == ([], {"a"})


NO_PREEMPTORS = {
    "it runs": {"nodeName": "n1"},
    "it terminates": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "it has finished": {"phase": "Failed"},
    "the UID of a running pod": {"metadata": {"uid": "uid-a"}},
    "the UID of a waiting pod": {"metadata": {"uid": "uid-new"}},
    "the name of a running pod": {"name": "a", "metadata": {"uid": "uid-stranger"}},
    "the name of a waiting pod": {"name": "new", "metadata": {"uid": "uid-stranger"}},
    "a pod that runs": {"name": "a"},
    "no UID": {"metadata": {"uid": ""}},
}


@pytest.mark.parametrize("of", NO_PREEMPTORS.values(), ids=NO_PREEMPTORS)
def test_H6_nothing_is_assumed_for_a_preemptor_that_does_not_wait_or_that_the_cache_contradicts(of):
    shop = Shop()
    before = dict(shop.snapshot().objects.pods)
    stranger = typed(pod(of.get("name", "stranger"), priority=100, **{"phase": "Pending", "start": None} | of_pod(of)))
    shop.preempt("a", "b", preemptor=stranger)
    assert len(shop.assumed) == 0
    assert shop.snapshot().objects.pods == before


def of_pod(of):
    return {key: value for key, value in of.items() if key != "name"}


def test_H6_a_pod_that_arrives_with_the_uid_of_a_preemptor_that_only_a_request_showed_takes_its_place():
    shop = Shop()
    stranger = typed(incoming("stranger", "4", priority=100, metadata={"uid": "uid-late"}))
    shop.preempt("a", preemptor=stranger)
    late = typed(pod("late", metadata={"uid": "uid-late"}))
    shop.shows(on(late, "n1"))
    assert (shop.nominated, shop.leaving, len(shop.assumed)) == ([], set(), 0)
    assert shop.from_api("stranger") is None
    assert shop.used == 3000


def test_H6_one_uid_is_assumed_once():
    shop = Shop()
    for name in ("stranger", "another"):
        shop.preempt("a", preemptor=typed(incoming(name, "4", metadata={"uid": "uid-one"})))
    assert shop.nominated == ["stranger"]


def test_H4_preemptors_that_no_watch_has_shown_are_bounded():
    shop = Shop()
    for number in range(MAX_UNKNOWN_PREEMPTORS + 10):
        shop.preempt("a", preemptor=typed(incoming(f"stranger-{number}", priority=100)))
    assert len(shop.nominated) == MAX_UNKNOWN_PREEMPTORS
    large = {"annotations": {"x": "x" * MAX_UNKNOWN_PREEMPTOR_BYTES}}
    shop.preempt("b", preemptor=typed(incoming("large", priority=100, metadata=large)))
    assert (len(shop.nominated), shop.leaving) == (MAX_UNKNOWN_PREEMPTORS, {"a", "b"}), "their victims leave anyway"
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert shop.nominated == []
    shop.preempt("a")
    assert shop.nominated == ["urgent"]


def test_H6_a_bind_of_a_pod_that_only_a_request_showed_assumes_nothing():
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    shop.bind("urgent")
    assert (shop.nominated, shop.used) == (["urgent"], 2000)


def test_H6_a_victim_that_is_another_pod_by_now_is_left_as_it_is():
    shop = Shop()
    old = replace(shop.pod("a"), metadata=replace(shop.pod("a").metadata, uid="uid-old"))
    shop.assumed.assume_preempted(URGENT_ONE, "n1", [old, shop.pod("b")])
    assert shop.leaving == {"b"}


# --- lists ----------------------------------------------------------------------------------------------------------


def run(steps):
    for _ in steps:
        pass


@pytest.fixture(params=[0, 200], ids=["as a new snapshot", "in one go"])
def at_once(request, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_CHANGES_IN_PLACE", request.param)


@pytest.mark.parametrize("uid", ["uid-stranger", "uid-late"])
def test_H6_a_list_that_has_the_uid_or_the_name_of_a_preemptor_that_only_a_request_showed_replaces_it(at_once, uid):
    shop = Shop()
    shop.preempt("a", preemptor=typed(incoming("stranger", "4", metadata={"uid": "uid-late"})))
    listed = [shop.from_api(name) for name in ("a", "b", "new", "urgent")]
    late = typed(pod("late" if uid == "uid-late" else "stranger", metadata={"uid": uid}, nodeName="n1"))
    run(shop.relist("Pod", [*listed, late]))
    assert shop.nominated == []
    assert shop.used == 3000
    assert shop.from_api(late.metadata.name) == late
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert sorted(shop.snapshot().objects.pods.values(), key=str) == sorted([*listed, late], key=str)


def test_H6_a_preemptor_that_only_a_request_showed_expires_also_while_a_reload_finds_out_who_is_unknown():
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    shop.assumed._unknown = {}  # as `reapply` begins
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert (shop.nominated, shop.leaving, len(shop.assumed)) == ([], set(), 0)


@pytest.mark.parametrize("without", [[], ["urgent"]], ids=["held before", "not held before"])
def test_what_is_assumed_survives_lists_and_new_snapshots(at_once, without):
    shop = Shop(without=without)
    shop.bind("new")
    shop.preempt("a")
    pods = [shop.from_api(name) for name in ("a", "b", "new")] + ([URGENT_ONE] if not without else [])
    more = typed(pod("more"))
    for _ in range(2):
        run(shop.relist("Pod", [*(labelled(one, team="blue") for one in pods), more]))
        run(shop.relist("Node", [*shop.mutable_snapshot().objects.nodes.values(), typed_node("n3")]))
        run(shop.rebuild())
        assert (shop.used, shop.nominated, shop.leaving, len(shop.assumed)) == (4000, ["urgent"], {"a"}, 3)
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert (shop.used, shop.nominated, shop.leaving) == (2000, [], set())
    assert set(shop.snapshot().objects.pods) == {("default", one.metadata.name) for one in [*pods, more]}


def typed_node(name):
    return stored_cluster(cluster({node(name): []})).nodes[0]


def test_a_list_without_the_pod_ends_what_was_assumed_of_it(at_once):
    shop = Shop()
    shop.bind("new")
    shop.preempt("a")
    run(shop.relist("Pod", [shop.from_api("b")]))
    assert (shop.used, shop.nominated, shop.leaving, len(shop.assumed)) == (1000, [], set(), 0)


def test_a_list_that_shows_a_pod_that_only_a_request_showed_makes_it_a_pod_like_any_other(at_once):
    shop = Shop(without=["urgent"])
    shop.preempt()
    run(shop.relist("Pod", [shop.from_api(name) for name in ("a", "b", "new")] + [URGENT_ONE]))
    assert shop.from_api("urgent") == URGENT_ONE
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert shop.pod("urgent") == URGENT_ONE


def test_what_expires_while_a_list_is_taken_in_does_no_harm(at_once):
    shop = Shop(without=["urgent"])
    shop.preempt("a")
    steps = shop.relist("Pod", [shop.from_api("a"), shop.from_api("b")])
    next(steps)
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    shop.snapshot()
    run(steps)
    assert {name for _, name in shop.snapshot().objects.pods} == {"a", "b"}
    assert shop.leaving == set()


# --- never for good -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(by_profile(15, 100, 5_000)))
def test_whatever_is_assumed_in_the_end_the_cache_is_what_the_api_server_said(seed, monkeypatch):
    """Beside each other: a cache that assumes things, and one that gets only the events."""
    chance = random.Random(seed)
    monkeypatch.setattr(cache_module, "MAX_CHANGES_IN_PLACE", chance.choice((0, 200)))
    shop, plain = Shop(), Shop()
    watched(shop, monkeypatch)
    names = ["a", "b", "new", "urgent", "extra"]
    for version in range(20, 60):
        shop.clock.now += chance.choice((0.0, 5.0))
        one = typed(pod(chance.choice(names), metadata={"resourceVersion": str(version)}))
        match chance.randrange(6):
            case 0:
                shop.assumed.assume_preempted(one, "n1", shop.snapshot().pods_on("n1")[: chance.randrange(3)])
            case 1:
                shop.bind(one.metadata.name)
            case 2:
                shop.assumed.forget_preemption(one)
            case 3:
                change = Change("Pod", one if chance.random() < 0.5 else on(one, "n1"), chance.random() < 0.3)
                for cache in (shop, plain):
                    cache.apply(change)
            case 4:
                listed = [plain.from_api(name) for _, name in plain.snapshot().objects.pods] + [one]
                for cache in (shop, plain):
                    run(cache.relist("Pod", listed))
            case _:
                run(shop.rebuild())
        if chance.random() < 0.3:
            shop.snapshot()
    shop.clock.now += ASSUMPTION_TTL_SECONDS
    assert shop.snapshot().objects.pods == plain.snapshot().objects.pods
    assert len(shop.assumed) == 0


def watched(shop, monkeypatch):
    """Whenever the cache changes, other threads must be told what was said and never what is assumed."""
    for name in ("put", "remove"):
        method = getattr(Snapshot, name)

        def checked(self, kind, what, method=method):
            check_said(shop)
            method(self, kind, what)
            check_said(shop)

        monkeypatch.setattr(Snapshot, name, checked)


def check_said(shop):
    for key, one in shop._snapshot.objects.pods.items():
        said = shop.api_object("Pod", key)
        assert said is None or said is one or one.metadata.uid == said.metadata.uid
        assert said is None or (said.metadata.deletion_timestamp, said.status.nominated_node_name) == (None, "")
