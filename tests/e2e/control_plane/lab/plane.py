"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on loopback.

Rule: leaving the context ends every process and removes the folder, after a failure and Ctrl-C too.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.e2e.control_plane.lab import binaries, keys
from tests.e2e.control_plane.lab.api import Api
from tests.e2e.control_plane.lab.audit_log import AuditEvent, audit_policy, read_audit_log
from tests.e2e.control_plane.lab.delayed_api import DelayedApi
from tests.e2e.control_plane.lab.kubelet import FakeKubelet
from tests.e2e.control_plane.lab.process import Process, answers, free_port, wait_until

CONTROLLERS = (
    "disruption-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "clusterrole-aggregation-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
)
"""Controllers that run; none of them deletes pods of a node or creates pods of a workload."""

DEPLOYMENT_CONTROLLERS = ("deployment-controller", "replicaset-controller")
"""Controllers that create the pods of Deployments."""


class ControlPlane:
    """A control plane in `directory`, with etcd `etcd` (one of binaries.ETCDS); a context manager.

    `runtime_config`: further API versions that the API server serves, such as `resource.k8s.io/v1beta2=true`;
    `feature_gates`: those of the API server and of its kube-schedulers; `controllers`: the controllers that run;
    `plugins_off`: admission plugins that do not (the not-ready taint of a new Node would wait for a controller that
    does not run); `kubelet`: whether pods run.
    """

    def __init__(
        self,
        directory: Path,
        etcd: str = "release",
        *,
        deletion_seconds: float = 0.5,
        runtime_config: str = "",
        feature_gates: str = "",
        controllers: Sequence[str] = CONTROLLERS,
        plugins_off: str = "TaintNodesByCondition",
        kubelet: bool = True,
    ) -> None:
        self.directory = directory
        self._controllers, self._plugins_off, self._has_kubelet = controllers, plugins_off, kubelet
        self._etcd_binary = binaries.etcd(etcd)
        self._runtime_config, self._feature_gates = runtime_config, feature_gates
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            binaries.binary(name)
        directory.mkdir(parents=True, exist_ok=True)
        self.keys = keys.Keys(directory / "keys")
        self.audit_file = directory / "audit.log"
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.api = Api(self.url, self.keys.ca_file, self.keys.token(keys.ADMIN))
        self.etcd = self._etcd()
        self.api_server = self._api_server()
        self.controller_manager = self._controller_manager()
        self._kubelet_api = Api(self.url, self.keys.ca_file, self.keys.token(keys.ADMIN))
        self.kubelet = FakeKubelet(self._kubelet_api, deletion_seconds)
        self._others: list[Process] = []

    def __enter__(self) -> "ControlPlane":
        try:
            self.etcd.start()
            self.api_server.start()  # first: the controller manager gives up after 20 s, which a busy machine may need
            self.controller_manager.start()
            find = self.api.find
            self.api.wait_until(lambda: find("ServiceAccount", "default", "default"), 30, "the default service account")
            if self._has_kubelet:
                self.kubelet.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and remove the folder (KUBE_KEEP=1 keeps it)."""
        with contextlib.ExitStack() as stack:
            if os.environ.get("KUBE_KEEP") != "1":
                stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
            stack.callback(self._kubelet_api.close)
            stack.callback(self.api.close)
            for process in (self.etcd, self.api_server, self.controller_manager, *self._others):
                stack.callback(process.kill)  # nothing here is needed afterwards
            stack.callback(self.kubelet.stop)

    def add(self, process: Process) -> None:
        """End this process too when the control plane ends."""
        self._others.append(process)

    # --- components

    def start_scheduler(
        self,
        config: dict[str, Any] | None = None,
        version: str = binaries.NEWEST,
        *,
        api_url: str | None = None,
        kubeconfig: Path | None = None,
        verbosity: int = 3,
        flags: Sequence[str] = (),
    ) -> Process:
        """Start a kube-scheduler with a KubeSchedulerConfiguration and wait until it is ready.

        `api_url`: the address of a DelayedApi; `kubeconfig`: another identity than system:kube-scheduler; `flags`:
        further arguments.
        """
        port = free_port()
        name = f"kube-scheduler-{port}"
        if kubeconfig is None:
            kubeconfig = self.kubeconfig(keys.SCHEDULER, api_url)
        given = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **(config or {}),
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
            "leaderElection": {"leaderElect": False},
        }
        file = self.directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(given))
        own = self.kubeconfig(keys.SCHEDULER)
        argv = [
            binaries.binary(binaries.SCHEDULERS[version]), f"--config={file}", f"--authentication-kubeconfig={own}",
            f"--authorization-kubeconfig={own}", "--bind-address=127.0.0.1", f"--secure-port={port}",
            f"--v={verbosity}", f"--feature-gates={self._feature_gates}", *flags,
        ]  # fmt: skip
        path = "healthz" if version == "1.30" else "readyz"
        process = Process(name, argv, self.directory, lambda: answers(f"https://127.0.0.1:{port}/{path}"))
        self.add(process)
        process.start()
        return process

    def restart_api_server(self) -> None:
        """Kill the API server, start it again and wait until it is ready."""
        self.api_server.kill()
        self.api_server.start()

    def delayed_api(self, seconds: tuple[float, float] = (0.0, 0.0)) -> DelayedApi:
        """Start a proxy of the API server that delays watch events; see DelayedApi."""
        proxy = DelayedApi(self.directory, self.url, self.keys.ca_file, self.keys.server, seconds)
        self.add(proxy)
        proxy.start()
        return proxy

    def compact(self) -> int:
        """Compact etcd at its current revision and return that."""
        revision = int(self._ask_etcd("kv/range", {"key": "Lw=="})["header"]["revision"])
        self._ask_etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def _ask_etcd(self, path: str, body: dict[str, Any]) -> Any:
        return httpx.post(f"{self._etcd_url}/v3/{path}", json=body, trust_env=False, timeout=2.0).json()

    # --- access

    def kubeconfig(
        self, user: str = keys.ADMIN, api_url: str | None = None, *, certificate: bool | None = None
    ) -> Path:
        """Write a kubeconfig: a token for `admin` and `system:kube-scheduler`, otherwise a client certificate.

        `certificate=True` makes a client certificate for these two as well (a proxy cannot pass that on).
        """
        has_token = user in (keys.ADMIN, keys.SCHEDULER) and not certificate
        credentials = {"token": self.keys.token(user)} if has_token else self.keys.client_certificate(user)
        name = f"{user}-{(api_url or self.url).rpartition(':')[2]}"
        return self.keys.kubeconfig(name, api_url or self.url, credentials)

    def service_account_kubeconfig(
        self, namespace: str, name: str, api_url: str | None = None, label: str = ""
    ) -> Path:
        """Write a kubeconfig with a `tokenFile` for a service account; `write_token` renews the token."""
        token_file = self.directory / f"{namespace}-{name}.token"
        self.write_token(namespace, name)
        return self.keys.kubeconfig(label or f"{namespace}-{name}", api_url or self.url, {"tokenFile": str(token_file)})

    def write_token(self, namespace: str, name: str) -> Path:
        """Request a token for a service account and write it into the file of its kubeconfig."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.api.request("POST", path, {"spec": {"expirationSeconds": 7200}})
        file = self.directory / f"{namespace}-{name}.token"
        beside = file.with_suffix(".new")
        beside.write_text(answer["status"]["token"])
        beside.replace(file)
        return file

    def audit_events(self) -> list[AuditEvent]:
        """Read the API server's audit log."""
        return read_audit_log(self.audit_file)

    wait_until = staticmethod(wait_until)

    # --- command lines

    def _etcd(self) -> Process:
        client, peer, metrics = free_port(), free_port(), free_port()
        self._etcd_url = f"http://127.0.0.1:{client}"
        peer_url = f"http://127.0.0.1:{peer}"
        argv = [
            self._etcd_binary, "--name=e2e", f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}", f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer_url}", f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=e2e={peer_url}", f"--listen-metrics-urls=http://127.0.0.1:{metrics}",
            "--snapshot-count=20000", "--quota-backend-bytes=4294967296",
        ]  # fmt: skip
        if "unsafe-no-fsync" in _help_of(self._etcd_binary):
            argv.append("--unsafe-no-fsync")
        return Process("etcd", argv, self.directory, lambda: answers(f"{self._etcd_url}/health"))

    def _api_server(self) -> Process:
        policy = self.directory / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(audit_policy()))
        certificate, key = self.keys.server
        argv = [
            binaries.binary("kube-apiserver"), f"--etcd-servers={self._etcd_url}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self._port}", f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}", f"--client-ca-file={self.keys.ca_file}",
            f"--token-auth-file={self.keys.token_file}", "--authorization-mode=RBAC", "--anonymous-auth=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.keys.service_account_public_key}",
            f"--service-account-signing-key-file={self.keys.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16", "--endpoint-reconciler-type=none",
            f"--disable-admission-plugins={self._plugins_off}",
            f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_file}",
            "--max-requests-inflight=800", "--max-mutating-requests-inflight=400", "--profiling=false", "--v=1",
            f"--runtime-config={self._runtime_config}", f"--feature-gates={self._feature_gates}",
        ]  # fmt: skip
        process = Process("kube-apiserver", argv, self.directory, self.api.is_ready)
        process.environment["GOGC"] = "200"
        return process

    def _controller_manager(self) -> Process:
        port = free_port()
        kubeconfig = self.kubeconfig(keys.CONTROLLER_MANAGER)
        argv = [
            binaries.binary("kube-controller-manager"), f"--kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={self.directory / 'certs'}",
            f"--controllers={','.join(self._controllers)}", f"--root-ca-file={self.keys.ca_file}",
            f"--service-account-private-key-file={self.keys.service_account_key}",
            "--use-service-account-credentials=true", "--leader-elect=false", "--kube-api-qps=400",
            "--kube-api-burst=800", "--profiling=false", "--v=2",
        ]  # fmt: skip
        url = f"https://127.0.0.1:{port}/healthz"
        return Process("kube-controller-manager", argv, self.directory, lambda: answers(url))


def _help_of(program: Path) -> str:
    done = subprocess.run([str(program), "--help"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
