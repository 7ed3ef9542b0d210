"""The presets that are compared, as an operator would configure them."""

from extender.config import Configuration
from extender.config.scheduler.load import load_kube_scheduler

POLICIES = {
    preset: load_kube_scheduler(Configuration.model_validate({"preemption": {"preset": preset}})).profiles[0]
    for preset in ("upstream", "careful", "strict")
}
"""Preset -> profile of the extender; kube-scheduler itself always uses the upstream profile."""
