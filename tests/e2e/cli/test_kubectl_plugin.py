"""`kubectl extender-why`: kubectl finds the plugin on the PATH, and passes on its arguments and its exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.deploy.manifests import KUBECTL, NO_KUBECTL

PLUGIN = Path(sys.executable).with_name("kubectl-extender_why")

pytestmark = pytest.mark.skipif(KUBECTL is None, reason=NO_KUBECTL)


def kubectl(*arguments, home):
    env = {"PATH": str(PLUGIN.parent), "HOME": str(home), "COLUMNS": "200"}
    command = [str(KUBECTL), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)


def test_kubectl_lists_the_plugin(tmp_path):
    assert str(PLUGIN) in kubectl("plugin", "list", home=tmp_path).stdout.splitlines()


def test_kubectl_runs_it(tmp_path):
    done = kubectl("extender-why", "cart-0", "-n", "shop", "--example", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shop/cart-0 is on worker-c1, ")
    done = kubectl("extender-why", "cart-0", home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "kubeconfig ~/.kube/config: no such file" in done.stderr
    assert "Usage: kubectl extender-why" in kubectl("extender-why", "--help", home=tmp_path).stdout
