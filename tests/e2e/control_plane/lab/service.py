"""The extender as a user runs it: `python -m extender serve --config FILE` with the shipped role."""

import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.process import Process, free_port

RBAC = Path(__file__).parents[4] / "deploy" / "kustomize"
"""Folder of the shipped roles."""

JSON = dict[str, Any]


class Service(Process):
    """The extender on a control plane, as service account kube-system/extender; ends with the control plane.

    `config` is merged into the configuration file; `roles` names components of deploy/kustomize whose RBAC is added
    (`bind`, `pod-groups`), None where all of it was applied before; `api_url` is the address of a DelayedApi. A context
    manager, which waits until it is ready.
    """

    def __init__(
        self,
        plane: ControlPlane,
        config: JSON | None = None,
        *,
        name: str = "extender",
        roles: tuple[str, ...] | None = (),
        api_url: str | None = None,
        kubeconfig: Path | None = None,
    ) -> None:
        if roles is not None:
            for folder in (RBAC / "rbac", *(RBAC / "components" / role for role in roles)):
                plane.api.apply(folder / "rbac.yaml")
        port, admin_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.admin_url = f"http://127.0.0.1:{admin_port}"
        if kubeconfig is None:
            kubeconfig = plane.service_account_kubeconfig("kube-system", "extender", api_url, label=name)
        self.kubeconfig = kubeconfig
        own = {
            "cluster": {"source": "kubernetes", "kubeconfig": str(kubeconfig)},
            "server": {"port": port},
            "admin": {"port": admin_port},
        }
        self.config_file = plane.directory / f"{name}.yaml"
        self.config_file.write_text(yaml.safe_dump(_merged(own, config or {})))
        argv = [sys.executable, "-m", "extender", "serve", "--config", self.config_file]
        super().__init__(name, argv, plane.directory, self.is_ready)
        self.environment["PYTHONPATH"] = str(Path(__file__).parents[4])
        self._http = httpx.Client(trust_env=False, limits=httpx.Limits(max_keepalive_connections=0))
        plane.add(self)

    def __enter__(self) -> "Service":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self, timeout: float = 10.0, number: signal.Signals = signal.SIGINT) -> None:
        """End the service as Ctrl-C does, without server.drainTime; SIGTERM waits for that."""
        super().stop(timeout, number)

    def is_ready(self) -> bool:
        """Return whether /readyz answers 200."""
        try:
            return self.admin_get("/readyz", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    def admin_get(self, path: str, *, timeout: float = 10.0, **query: Any) -> httpx.Response:
        return self._http.get(self.admin_url + path, params=query or None, timeout=timeout)

    def admin_post(self, path: str, body: Any) -> httpx.Response:
        return self._http.post(self.admin_url + path, json=body, timeout=30.0)

    def call(self, verb: str, body: JSON, *, timeout: float = 30.0) -> httpx.Response:
        """Call a verb as kube-scheduler does."""
        return self._http.post(f"{self.url}/{verb}", json=body, timeout=timeout)

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels."""
        total = 0.0
        for line in self.admin_get("/metrics").text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(f'{k}="{v}"' in series for k, v in labels.items()):
                total += float(value)
        return total

    def extender(self, url: str | None = None, **options: Any) -> JSON:
        """Return the entry of `extenders` in a KubeSchedulerConfiguration: all verbs but bind, with node names.

        `url`: the address of a CallRecorder; an option None leaves the field out.
        """
        entry = {
            "urlPrefix": url or self.url,
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 1,
            "httpTimeout": "5s",
            "nodeCacheCapable": True,
            "ignorable": False,
            **options,
        }
        return {key: value for key, value in entry.items() if value is not None}


def _merged(base: JSON, more: JSON) -> JSON:
    both = base.keys() & more.keys()
    nested = {key: _merged(base[key], more[key]) for key in both if isinstance(base[key], dict)}
    return base | more | nested
