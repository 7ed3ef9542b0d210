"""Kubeconfigs for tests, and a world without any.

Rule: a test names every file that is read.
"""

import base64
from pathlib import Path

import yaml

from extender.cluster.apiserver.client import ApiServer

PODS = "/api/v1/pods"

SECRET = "s3cret"
"""Must never be in a message."""


def forget_everything(monkeypatch, home: Path) -> None:
    """No pod, no kubeconfig, no proxy."""
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(home))


def kubeconfig(path: Path, user=None, cluster=None, *, context="main", **more) -> str:
    """Write one with a single context, whose user and cluster are called as it is."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "clusters": [{"name": context, "cluster": cluster or {}}],
        "users": [{"name": context, "user": user}],
    } | more
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return str(path)


def ask(*connect, **options) -> None:
    """Load and list; every error goes up."""
    server = ApiServer.connect(*connect, **options)
    try:
        server.get(PODS)
    finally:
        server.close()


def inline(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
