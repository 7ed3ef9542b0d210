"""Pods: defaults, what the strategy of a create request changes, and validation of pods and of their templates."""
