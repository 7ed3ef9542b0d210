#!/usr/bin/env bash
# Package:   k8s.io/apimachinery 0.37.2 (Go module), pkg/api/resource
# Date:      2026-11-27
# Expected:  the documentation of the type Quantity, which the OpenAPI document of the API server repeats: a larger
#            number than 2^63-1 is capped, one with more than three decimals is rounded up (0.1m becomes 1m), and what
#            is not canonical is written in canonical form, without a plus sign. A client that was written by this text
#            computes 1m for 0.1m.
# Seen:      0.1m stays 100u: the limit is nine decimals. 10E stays 10E, and its Value(), the bytes of a memory, is 0;
#            only binary units (16Ei) are capped. "+5", "5." and "010" come back from JSON as they were written.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.37.2\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range []string{"0.1m", "0.0000000001", "9E", "10E", "16Ei", "1.5Gi", "+5", "5.", "010"} {
		var quantity resource.Quantity
		if err := json.Unmarshal([]byte(`"`+text+`"`), &quantity); err != nil {
			panic(err)
		}
		written, err := json.Marshal(quantity)
		if err != nil {
			panic(err)
		}
		fmt.Println(text, "is written", string(written), "and has the value", quantity.Value())
	}
}
GO
GOFLAGS=-mod=mod go run . 2>errors >seen || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
0.1m is written "100u" and has the value 1
0.0000000001 is written "1n" and has the value 1
9E is written "9E" and has the value 9000000000000000000
10E is written "10E" and has the value 0
16Ei is written "9223372036854775807" and has the value 9223372036854775807
1.5Gi is written "1536Mi" and has the value 1610612736
+5 is written "+5" and has the value 5
5. is written "5." and has the value 5
010 is written "010" and has the value 10
SEEN
