"""Measure how much the extender slows down a real kube-scheduler on a real control plane (`make bench-cluster`)."""
