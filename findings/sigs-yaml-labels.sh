#!/usr/bin/env bash
# Packages:  sigs.k8s.io/yaml 1.6.0 with k8s.io/api and k8s.io/apimachinery 0.37.2 (Go modules)
# Date:      2026-11-27
# Expected:  a label value without quotation marks that YAML reads as a number is refused when the manifest is decoded
#            into a Pod, as kubectl and the API server do, all the more by UnmarshalStrict, the stricter function.
# Seen:      UnmarshalStrict takes the number and writes it out anew: version 1.10 becomes the label "1.1", 012 becomes
#            "10", the commit 1234e05 becomes "1.234e+08" and 2026_11_27 becomes "20261127". A tool that reads manifests
#            this way sees labels that were never written, in manifests that the API server does not accept.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	k8s.io/api v0.37.2
	k8s.io/apimachinery v0.37.2
	sigs.k8s.io/yaml v1.6.0
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/yaml"
)

func main() {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	kubernetes := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	for _, value := range []string{"1.10", "012", "1234e05", "2026_11_27", "0x1F", `"1.10"`} {
		manifest := []byte("apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    it: " + value + "\n")
		var pod corev1.Pod
		if err := yaml.UnmarshalStrict(manifest, &pod); err != nil {
			panic(err)
		}
		verdict := "read"
		if _, _, err := kubernetes.Decode(manifest, nil, nil); err != nil {
			verdict = "refused"
		}
		fmt.Printf("%s: UnmarshalStrict %q, decoder of Kubernetes: %s\n", value, pod.Labels["it"], verdict)
	}
}
GO
GOFLAGS=-mod=mod go run . 2>errors >seen || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above"; exit 1; }
1.10: UnmarshalStrict "1.1", decoder of Kubernetes: refused
012: UnmarshalStrict "10", decoder of Kubernetes: refused
1234e05: UnmarshalStrict "1.234e+08", decoder of Kubernetes: refused
2026_11_27: UnmarshalStrict "20261127", decoder of Kubernetes: refused
0x1F: UnmarshalStrict "31", decoder of Kubernetes: refused
"1.10": UnmarshalStrict "1.10", decoder of Kubernetes: read
SEEN
