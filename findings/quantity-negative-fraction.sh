#!/usr/bin/env bash
# Package:   k8s.io/apimachinery 0.37.2 (Go module), pkg/api/resource
# Date:      2026-11-27
# Expected:  Quantity.Value() rounds away from zero (its Go documentation), so a negative quantity never has a positive
#            Value(), and two quantities that Cmp() calls equal have the same one. AsDec() is a reading method.
# Seen:      a negative fraction with more than nine decimals, or one of which AsDec() was called before, is rounded
#            towards plus infinity and one step too far: -1n has the value +1, -1.000000001 has 0 instead of -2. It
#            depends on whether the quantity is held as an int64 or as a decimal number, which neither String() nor
#            Cmp() shows. Sign() stays -1. MilliValue() is off in the same way.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/apimachinery v0.37.2\n' >go.mod
cat >main.go <<'GO'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	for _, text := range []string{"-1n", "-0.0000000005", "-1m", "-1000000001n", "-1.0000000005", "-3"} {
		plain, read := resource.MustParse(text), resource.MustParse(text)
		read.AsDec()
		fmt.Printf("%s: String %s, Sign %d, Value %d, MilliValue %d; after AsDec: Cmp %d, Value %d, MilliValue %d\n", text,
			plain.String(), plain.Sign(), plain.Value(), plain.MilliValue(), plain.Cmp(read), read.Value(), read.MilliValue())
	}
}
GO
GOFLAGS=-mod=mod go run . 2>errors >seen || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
-1n: String -1n, Sign -1, Value -1, MilliValue -1; after AsDec: Cmp 0, Value 1, MilliValue 1
-0.0000000005: String -1n, Sign -1, Value 1, MilliValue 1; after AsDec: Cmp 0, Value 1, MilliValue 1
-1m: String -1m, Sign -1, Value -1, MilliValue -1; after AsDec: Cmp 0, Value 1, MilliValue -1
-1000000001n: String -1000000001n, Sign -1, Value -2, MilliValue -1001; after AsDec: Cmp 0, Value 0, MilliValue -999
-1.0000000005: String -1000000001n, Sign -1, Value 0, MilliValue -999; after AsDec: Cmp 0, Value 0, MilliValue -999
-3: String -3, Sign -1, Value -3, MilliValue -3000; after AsDec: Cmp 0, Value -3, MilliValue -3000
SEEN
