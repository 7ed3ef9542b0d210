#!/usr/bin/env bash
# Packages:  k8s.io/kubernetes 1.34.12 (Go module), the package noderesources
# Date:      2026-11-28
# Expected:  A pod that requests huge pages does not fit on a node whose allocatable has none, whatever a feature gate about
#            devices says: DRAExtendedResource is about extended resources, and huge pages are none.
# Seen:      With that gate (alpha, off by default) nothing is insufficient: where the pod requests no extended resource,
#            kube-scheduler looks up no DeviceClasses, and then takes every resource that the node does not name for one that
#            devices may provide. A node that names huge pages with the amount 0 is refused.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
version=1.34.12
requirements=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",*/\1/p')
{
  printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n' "$version"
  sed -nE "s#^[[:space:]]+(k8s.io/[a-z-]+) v0.0.0\$#replace \1 => \1 v0.${version#1.}#p" "$requirements"
} >go.mod

cat >"$work/main.go" <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

func insufficient(allocatable v1.ResourceList, gate bool) int {
	allocatable[v1.ResourcePods] = resource.MustParse("10")
	node := framework.NewNodeInfo()
	node.SetNode(&v1.Node{Status: v1.NodeStatus{Allocatable: allocatable}})
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{"hugepages-2Mi": resource.MustParse("2Mi")}}}}}}
	return len(noderesources.Fits(pod, node, noderesources.ResourceRequestsOptions{EnableDRAExtendedResource: gate}))
}

func main() {
	none, zero := v1.ResourceList{}, v1.ResourceList{"hugepages-2Mi": resource.MustParse("0")}
	fmt.Printf("insufficient without the gate %d, with it %d, with it where the amount is 0 %d\n",
		insufficient(none, false), insufficient(none, true), insufficient(zero, true))
}
GO

GOFLAGS=-mod=mod go run . >seen 2>errors || { cat errors >&2; exit 1; }
cat seen
diff seen - <<'SEEN' || { echo "no longer as described above" >&2; exit 1; }
insufficient without the gate 1, with it 0, with it where the amount is 0 1
SEEN
