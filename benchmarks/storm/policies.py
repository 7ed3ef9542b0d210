"""The presets that are compared, as an operator would configure them."""

from extender.config import Configuration

POLICIES = {
    preset: Configuration.model_validate({"preemption": {"preset": preset}}).profile()
    for preset in ("upstream", "careful", "strict")
}
"""Preset -> profile of the extender; kube-scheduler itself always uses the upstream profile."""
