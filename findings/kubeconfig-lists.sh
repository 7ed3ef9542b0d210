#!/usr/bin/env bash
# Packages:  kubernetes 37.0.2, kr8s 0.20.15, lightkube 1.0.1 (PyPI), @kubernetes/client-node 1.4.0 (npm) with
#            k8s.io/client-go 0.37.2 (Go module), which kubectl uses, as a yardstick
# Date:      2026-11-28
# Expected:  KUBECONFIG may list several files. "Organizing Cluster Access Using kubeconfig Files" of the documentation
#            says how they are merged: the first file to set a value wins, and files that are not there are ignored.
# Seen:      with two files that both have a current-context, and a cluster and a user of the same name, client-go takes
#            those of the first file. The official Python client takes the current-context of the last one; kr8s the
#            cluster and the user of the last one, so that requests go to another server with another token; lightkube
#            looks for one file with a colon in its name; the official JavaScript client refuses names that are there
#            twice. lightkube and the JavaScript client do not ignore a file that is not there.
set -euo pipefail
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check kubernetes==37.0.2 kr8s==0.20.15 lightkube==1.0.1
npm install --silent --no-fund --no-audit @kubernetes/client-node@1.4.0 >/dev/null
cat >write.py <<'PY'
import json
from pathlib import Path


def write(file: str, current: str, clusters: list[str]) -> None:
    context = {"cluster": clusters[0], "user": clusters[0], "namespace": file}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": name, "cluster": {"server": f"https://{file}.example"}} for name in clusters],
        "users": [{"name": name, "user": {"token": file}} for name in clusters],
        "contexts": [{"name": current, "context": context}],
    }
    Path(file).write_text(json.dumps(config))


write("one", "first", ["shared"])
write("two", "second", ["shared"])
PY
python3 write.py
cat >official.py <<'PY'
from kubernetes import client, config

try:
    config.load_kube_config()
    found = client.Configuration.get_default_copy()
    print(config.list_kube_config_contexts()[1]["name"], found.host, found.api_key["BearerToken"].split()[-1])
except Exception as error:
    print(type(error).__name__)
PY
cat >kr8s_.py <<'PY'
import asyncio
import os

from kr8s._auth import KubeAuth  # what kr8s.api() calls, without its first request


async def main() -> None:
    try:
        found = await KubeAuth(kubeconfig=os.environ["KUBECONFIG"])
        print(found.active_context, found.server, found.token)
    except Exception as error:
        print(type(error).__name__)


asyncio.run(main())
PY
cat >lightkube_.py <<'PY'
from lightkube import KubeConfig

try:
    found = KubeConfig.from_env().get()
    print(found.context_name, found.cluster.server, found.user.token)
except Exception as error:
    print(type(error).__name__)
PY
cat >look.mjs <<'JS'
import { KubeConfig } from "@kubernetes/client-node";

const found = new KubeConfig();
try {
  found.loadFromDefault();
  console.log(found.getCurrentContext(), found.getCurrentCluster().server, found.getCurrentUser().token);
} catch (error) {
  console.log(error.message.split(",")[0]);
}
JS
printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/client-go v0.37.2\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil)
	raw, err := loaded.RawConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	config, err := loaded.ClientConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(raw.CurrentContext, config.Host, config.BearerToken)
}
GO
GOFLAGS=-mod=mod go build -o look . 2>errors || { cat errors >&2; exit 1; }
for list in one:two one:absent; do
    export KUBECONFIG=$list
    echo "$list"
    echo "  client-go:   $(./look 2>/dev/null)"
    echo "  Python:      $(venv/bin/python official.py)"
    echo "  kr8s:        $(venv/bin/python kr8s_.py)"
    echo "  lightkube:   $(venv/bin/python lightkube_.py)"
    echo "  JavaScript:  $(node look.mjs)"
done >seen
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
one:two
  client-go:   first https://one.example one
  Python:      second https://one.example one
  kr8s:        first https://two.example two
  lightkube:   ConfigError
  JavaScript:  Duplicate cluster: shared
one:absent
  client-go:   first https://one.example one
  Python:      first https://one.example one
  kr8s:        first https://one.example one
  lightkube:   ConfigError
  JavaScript:  ENOENT: no such file or directory
SEEN
