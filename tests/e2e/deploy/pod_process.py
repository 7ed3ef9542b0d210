"""The process of an extender's pod: its command, environment and files, with free ports and another API server."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.deploy.manifests import extender_of, of_kind, pod_of, rendered, scheduler_file
from tests.fakes.certificates import Certificates, KeyPair


@contextmanager
def pod_process(
    name: str, directory: Path, api_url: str, files: Mapping[str, Path], own_scheduler_file: str | None = None
) -> Iterator[dict[str, str]]:
    """Run the extender of one of ALL; yield name of the listener -> its address.

    `files` are those of its TLS volume, by their names there, if it has one; `own_scheduler_file` replaces the text of
    kube-scheduler's file.
    """
    pod = pod_of(rendered(name))
    _mount(pod, name, directory, files, own_scheduler_file)
    access = {
        "clusters": [{"name": "fake", "cluster": {"server": api_url}}],
        "users": [{"name": "fake", "user": {"token": "t"}}],
        "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
        "current-context": "fake",
    }
    (directory / "kubeconfig").write_text(yaml.safe_dump(access), encoding="utf-8")
    process = _run(extender_of(pod), directory)
    log = directory / "log"
    try:
        wait_until(lambda: len(_listeners(log)) == 2 or process.poll() is not None)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield {name: address.replace("0.0.0.0", "127.0.0.1") for name, address in _listeners(log).items()}
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def tls_files(certificates: Certificates, pair: KeyPair) -> dict[str, Path]:
    """Return what a Secret of the Service variant holds, file by file."""
    return {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": certificates.ca_file}


def _run(container: dict[str, Any], directory: Path) -> subprocess.Popen[bytes]:
    """Start the container's process, with the directory for /etc/extender and free ports."""

    def here(text: str) -> str:
        return text.replace("/etc/extender", str(directory))

    env = {one["name"]: here(one["value"]) for one in container["env"]}
    ports = {"EXTENDER_SERVER__PORT": "0", "EXTENDER_ADMIN__PORT": "0"}
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "extender", *map(here, container["args"])],
            env={"KUBECONFIG": str(directory / "kubeconfig"), "HOME": str(directory), **env, **ports},
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def _mount(
    pod: dict[str, Any], name: str, directory: Path, files: Mapping[str, Path], own_scheduler_file: str | None
) -> None:
    """Write what the pod's volumes hold to where they are mounted, below the directory."""
    for folder in ("config", "scheduler", "tls"):
        (directory / folder).mkdir()
    for file, text in scheduler_file(name).items():
        (directory / "scheduler" / file).write_text(own_scheduler_file or text, encoding="utf-8")
    for volume in pod["spec"]["volumes"]:
        if volume["name"] == "config":
            (data,) = [
                one["data"]
                for one in of_kind(rendered(name), "ConfigMap")
                if one["metadata"]["name"] == volume["configMap"]["name"]
            ]
            for file, text in data.items():
                (directory / "config" / file).write_text(text, encoding="utf-8")
        if volume["name"] == "tls":
            for file, made in files.items():
                (directory / "tls" / file).write_bytes(made.read_bytes())


def _listeners(log: Path) -> dict[str, str]:
    """Return name of the listener -> its address, as far as the log has them."""
    return dict(re.findall(r"(\w+): listening on (https?://[\w.:]+)", log.read_text(encoding="utf-8")))


def wait_until(condition: Callable[..., object], limit: float = 120.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)
