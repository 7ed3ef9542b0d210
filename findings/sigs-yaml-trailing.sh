#!/usr/bin/env bash
# Packages:  sigs.k8s.io/yaml 1.6.0 with go.yaml.in/yaml/v2 2.4.4 (Go modules; the decoder of kubectl 1.37), and PyYAML 6.0.3
#            (PyPI)
# Date:      2026-11-28
# Expected:  text in which a mapping ends and further keys follow at a lower indentation is not YAML, and a decoder that is
#            called strict refuses it.
# Seen:      YAMLToJSONStrict reads the first mapping and drops the rest without an error. A manifest whose first line is
#            indented by one space, as it comes from a careless copy, is read as that line alone. The same goes for what
#            follows `...`. PyYAML refuses both.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require sigs.k8s.io/yaml v1.6.0
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

func main() {
	for _, text := range []string{" kind: Pod\nspec: {priority: 5}\n", "kind: Pod\n...\nspec: {priority: 5}\n"} {
		found, err := yaml.YAMLToJSONStrict([]byte(text))
		fmt.Printf("Go %q = %s %v\n", text, found, err)
	}
}
GO
GOFLAGS=-mod=mod go run . 2>errors >seen || { cat errors >&2; exit 1; }
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check PyYAML==6.0.3
venv/bin/python >>seen <<'PY'
import yaml

for text in (" kind: Pod\nspec: {priority: 5}\n", "kind: Pod\n...\nspec: {priority: 5}\n"):
    try:
        print("PyYAML", yaml.safe_load(text))
    except yaml.YAMLError as error:
        print("PyYAML refuses:", type(error).__name__)
PY
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
Go " kind: Pod\nspec: {priority: 5}\n" = {"kind":"Pod"} <nil>
Go "kind: Pod\n...\nspec: {priority: 5}\n" = {"kind":"Pod"} <nil>
PyYAML refuses: ParserError
PyYAML refuses: ParserError
SEEN
