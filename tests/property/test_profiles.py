"""What a profile says does not hang on which other profiles the same kube-scheduler has.

But for nominated pods: kube-scheduler's nominator is one for all its profiles, so that a nominated pod of any of them
counts, as one of the incoming pod's own profile would.
"""

from copy import deepcopy
from random import Random

from hypothesis import given

from extender.config.scheduler.load import kube_scheduler_of
from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.scheduling_cycle.schedule_one import schedule_one
from extender.errors import PluginFailed
from extender.k8s.candidates import SentCandidate
from tests.builders import built, typed
from tests.profiles import SEEDS, examples
from tests.property.generate import case
from tests.upstream.generate.configurations import random_configuration, without_extenders

MANY = examples(5, 300, 20_000)
OURS, THEIRS, NEITHER = "default-scheduler", "second-scheduler", "unknown-scheduler"


def configurations(seed, one):
    """A configuration with the profile OURS alone, and the same with THEIRS behind or before it."""
    random = Random(seed)
    scenario = {"cluster": one.cluster, "pod": one.pod}
    document = random_configuration(random, scenario)
    ours = document["profiles"][0] | {"schedulerName": OURS}
    theirs = random_configuration(random, scenario)["profiles"][-1] | {"schedulerName": THEIRS}
    both = [ours, theirs] if random.random() < 0.5 else [theirs, ours]
    return without_extenders(document | {"profiles": [ours]}), without_extenders(document | {"profiles": both})


def pods_spread(seed, one, of_nominated):
    """The cluster with its pods spread over schedulers, those that are nominated given to one."""
    random, spread = Random(seed), deepcopy(one.cluster)
    for item in spread["items"]:
        if item["kind"] == "Pod":
            is_nominated = not item["spec"].get("nodeName") and item.get("status", {}).get("nominatedNodeName")
            name = of_nominated if is_nominated else random.choice((OURS, THEIRS, NEITHER))
            item["spec"]["schedulerName"] = name
    return spread


def attempt(call):
    try:
        return call()
    except PluginFailed as error:
        return str(error)


def answers(scheduler, snapshot, pod):
    """All that is asked about a pod; first about one of another profile, whose answers must leave nothing behind."""
    for other in scheduler.profiles:
        if other.scheduler_name != pod.spec.scheduler_name:
            Evaluation(snapshot, pod, other)
            attempt(lambda other=other: engine.filter(snapshot, pod, snapshot.node_names, other))
    profile, names = scheduler.profile_of(pod), snapshot.node_names
    sent = engine_candidates(Evaluation(snapshot, pod, profile).policies)
    cycle = schedule_one(snapshot, pod, scheduler)
    return (
        Evaluation(snapshot, pod, profile).to_dict(),
        attempt(lambda: engine.filter(snapshot, pod, names, profile)),
        attempt(lambda: engine.prioritize(snapshot, pod, names, profile)),
        attempt(lambda: engine.preempt(snapshot, pod, sent, profile)),
        (cycle.outcome, cycle.node, cycle.message, cycle.score, cycle.post_filter, [one.key for one in cycle.victims]),
    )


def engine_candidates(run):
    """The candidates as kube-scheduler sends them."""
    return {
        run.snapshot.node_names[int(run.rows[place])]: SentCandidate(
            tuple(pod.metadata.uid for pod in run.victims_on(place)), int(run.violations[place])
        )
        for place in run.candidate.nonzero()[0].tolist()
    }


@MANY
@given(SEEDS)
def test_another_profile_changes_nothing(seed):
    one = case(seed)
    pod = typed(one.pod | {"spec": one.pod["spec"] | {"schedulerName": OURS}})
    alone, both = map(kube_scheduler_of, configurations(seed, one))
    snapshot = built(pods_spread(seed, one, OURS))
    assert answers(both, snapshot, pod) == answers(alone, snapshot, pod), "another profile changes the answers"


@MANY
@given(SEEDS)
def test_a_nominated_pod_of_another_profile_counts_as_one_of_its_own(seed):
    one = case(seed)
    pod = typed(one.pod | {"spec": one.pod["spec"] | {"schedulerName": OURS}})
    both = kube_scheduler_of(configurations(seed, one)[1])
    theirs, ours = (built(pods_spread(seed, one, name)) for name in (THEIRS, OURS))
    assert answers(both, theirs, pod) == answers(both, ours, pod), "a nominated pod counts otherwise by its profile"
