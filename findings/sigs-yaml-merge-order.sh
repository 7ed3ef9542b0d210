#!/usr/bin/env bash
# Packages:  sigs.k8s.io/yaml 1.6.0 with go.yaml.in/yaml/v2 2.4.4 (Go modules; the decoder of kubectl 1.37, through
#            k8s.io/apimachinery 0.37.2), and PyYAML 6.0.3 (PyPI)
# Date:      2026-11-28
# Expected:  keys that a mapping writes itself take precedence over those that `<<` merges into it, wherever `<<` stands:
#            the merge key of YAML inserts a key "unless the key already exists in it".
# Seen:      the Go module goes from top to bottom: a merge replaces what was written before it. PyYAML, and with it
#            our own reader before this day, keeps the mapping's own value. A manifest with `replicas: 3` above
#            `<<: *defaults` is created with the replicas of the defaults, without a word.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	k8s.io/apimachinery v0.37.2
	sigs.k8s.io/yaml v1.6.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	for _, spec := range []string{"{<<: *defaults, replicas: 3}", "{replicas: 3, <<: *defaults}"} {
		text := "defaults: &defaults {replicas: 1}\nspec: " + spec
		var manifest map[string]json.RawMessage
		if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096).Decode(&manifest); err != nil {
			panic(err)
		}
		fmt.Printf("kubectl %s = %s\n", spec, manifest["spec"])
	}
}
GO
GOFLAGS=-mod=mod go run . 2>errors >seen || { cat errors >&2; exit 1; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check PyYAML==6.0.3
venv/bin/python >>seen <<'PY'
import json

import yaml

for spec in ("{<<: *defaults, replicas: 3}", "{replicas: 3, <<: *defaults}"):
    manifest = yaml.safe_load("defaults: &defaults {replicas: 1}\nspec: " + spec)
    print("PyYAML", spec, "=", json.dumps(manifest["spec"], separators=(",", ":")))
PY
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
kubectl {<<: *defaults, replicas: 3} = {"replicas":3}
kubectl {replicas: 3, <<: *defaults} = {"replicas":1}
PyYAML {<<: *defaults, replicas: 3} = {"replicas":3}
PyYAML {replicas: 3, <<: *defaults} = {"replicas":3}
SEEN
