"""A kube-scheduler with a shipped configuration file, and the identities that the manifests give."""

import base64
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.e2e.control_plane.lab import binaries
from tests.e2e.control_plane.lab.plane import ControlPlane
from tests.e2e.control_plane.lab.process import Process, answers, free_port


@contextlib.contextmanager
def kube_scheduler(
    plane: ControlPlane, config: Path | str, identity: Path, version: str = binaries.NEWEST, flags: Sequence[str] = ()
) -> Iterator[Process]:
    """Run a kube-scheduler with a configuration file, or a text as the whole of it, as the user of a kubeconfig."""
    port = free_port()
    name = f"kube-scheduler-{version}-{port}"
    if isinstance(config, Path):
        file = config
    else:
        file = plane.directory / f"{name}.yaml"
        file.write_text(config)
    argv = [
        binaries.binary(binaries.SCHEDULERS[version]), f"--config={file}", f"--authentication-kubeconfig={identity}",
        f"--authorization-kubeconfig={identity}", "--bind-address=127.0.0.1", f"--secure-port={port}", "--v=2",
        *flags,
    ]  # fmt: skip
    process = Process(name, argv, plane.directory, lambda: answers(f"https://127.0.0.1:{port}/healthz"))
    plane.add(process)
    try:
        process.start()
        yield process
    finally:
        process.stop()  # releases its lease


def kubeconfig_of_secret(plane: ControlPlane, name: str, namespace: str = "kube-system") -> Path:
    """Return a kubeconfig with the token that the token controller puts into the Secret."""
    data = plane.api.wait_until(lambda: plane.api.get("Secret", name, namespace).get("data"), 20, "the token")
    return plane.keys.kubeconfig(name, plane.url, {"token": base64.b64decode(data["token"]).decode()})
