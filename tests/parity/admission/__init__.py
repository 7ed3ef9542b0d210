"""Manifests as people write them, and what a real API server made of them (kube-apiserver 1.37.2)."""
