"""Preemption policies for a simulation, given by the name of a preset or as a `preemption` section."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extender.admission.admit import Admit
from extender.config import load_config
from extender.config.preemption import PRESETS, PreemptionSection
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ClusterFileError, ConfigError, RequestError
from extender.k8s.kinds import ClusterObjects
from extender.report.simulation_schema import Simulation
from extender.utilities.text import suggestion
from extender.whatif.scenario import Scenario
from extender.whatif.scheduler import Step
from extender.whatif.simulator import simulate

CONFIGURED = "configured"
"""Name of the configured policies, in addition to the names of the presets."""

StepObserver = Callable[[Step], object]


@dataclass(frozen=True, slots=True)
class SimulatedPolicy:
    """A kube-scheduler with our policies in its profiles, and the name of the policies in the result."""

    name: str
    scheduler: KubeScheduler


def preset_policy(base: KubeScheduler, name: str) -> SimulatedPolicy:
    """Return the preset of this name, or the configured policies; RequestError for any other name."""
    if name == CONFIGURED:
        return SimulatedPolicy(name, base)
    if name not in PRESETS:
        names = (*PRESETS, CONFIGURED)
        raise RequestError(f"unknown preset {name!r}{suggestion(name, names)}: available: {', '.join(names)}")
    return _policy(name, base, PreemptionSection.model_validate({"preset": name}))


def custom_policy(base: KubeScheduler, section: Any) -> SimulatedPolicy:
    """Return the policy of a `preemption` section; RequestError with one line per mistake if it is invalid."""
    try:
        # Loaded as part of a configuration file, so that errors name the same keys.
        config = load_config(None, {}, {"body": ("preemption", section)})
    except ConfigError as error:
        raise RequestError(str(error)) from error
    return _policy("the request's own", base, config.preemption)


def _policy(name: str, base: KubeScheduler, section: PreemptionSection) -> SimulatedPolicy:
    return SimulatedPolicy(name, base.with_preemption(section.policy(), section.most_candidates))


def run_simulation(
    cluster: ClusterObjects | Snapshot,
    policy: SimulatedPolicy,
    scenario: Scenario,
    history: EvictionHistory,
    observer: StepObserver | None = None,
    server: Admit | None = None,
) -> Simulation:
    """Simulate the scenario under one policy. Raises RequestError for a pod that is not admitted.

    A given snapshot is modified, and must be built for the same version; for objects, a snapshot is built.
    """
    if not isinstance(cluster, Snapshot):
        try:
            cluster = Snapshot.build(cluster, policy.scheduler.features)
        except ValueError as error:
            raise ClusterFileError(str(error)) from error
    return simulate(
        cluster, policy.scheduler, scenario, history=history, name=policy.name, on_step=observer, server=server
    )
