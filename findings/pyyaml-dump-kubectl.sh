#!/usr/bin/env bash
# Packages:  PyYAML 6.0.3 (PyPI), and k8s.io/apimachinery 0.37.2 with sigs.k8s.io/yaml 1.6.0 (Go modules, the decoder of
#            kubectl 1.37)
# Date:      2026-11-28
# Expected:  both read YAML 1.1, so that a string which PyYAML writes is the same string for kubectl: safe_dump puts
#            "yes", "010" and "1.0" in quotation marks for this reason.
# Seen:      safe_dump writes "y", "n", "1e3", "08" and "0o10" without quotation marks, because PyYAML itself reads them as
#            strings (YAML 1.1 lists y and n, PyYAML does not; its floats need a point). kubectl reads booleans and
#            numbers: a label "y" or a commit "1e3" makes the API server refuse the manifest, and a node named "n" is false.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check PyYAML==6.0.3
venv/bin/python >texts <<'PY'
import yaml

for text in ("yes", "010", "1.0", "y", "n", "1e3", "08", "0o10"):
    print(yaml.safe_dump({"it": text}).strip())
PY
cat >go.mod <<'MOD'
module finding

go 1.26.0

require k8s.io/apimachinery v0.37.2
MOD
cat >main.go <<'GO'
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var manifest map[string]json.RawMessage
		if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(lines.Text()), 4096).Decode(&manifest); err != nil {
			panic(err)
		}
		fmt.Printf("PyYAML writes %s, kubectl reads %s\n", lines.Text(), manifest["it"])
	}
}
GO
GOFLAGS=-mod=mod go run . <texts 2>errors >seen || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
PyYAML writes it: 'yes', kubectl reads "yes"
PyYAML writes it: '010', kubectl reads "010"
PyYAML writes it: '1.0', kubectl reads "1.0"
PyYAML writes it: y, kubectl reads true
PyYAML writes it: n, kubectl reads false
PyYAML writes it: 1e3, kubectl reads 1000
PyYAML writes it: 08, kubectl reads 8
PyYAML writes it: 0o10, kubectl reads 8
SEEN
