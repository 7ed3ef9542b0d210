#!/usr/bin/env bash
# Packages:  k8s.io/dynamic-resource-allocation 0.34.12 and 0.35.8 (Go modules), the package structured
# Date:      2026-11-27
# Expected:  A claim for two devices with the constraint distinctAttribute gets devices whose attribute differs, by the API's
#            description of the field. With two devices of one color there is nothing to allocate.
# Seen:      0.34.12, the last patch of 0.34, allocates both devices: its constraint compares the addresses of the two values,
#            which differ from device to device, not the values. Only a missing attribute is noticed. 0.35.8 allocates none.
#            The field is alpha (DRAConsumableCapacity) in both.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ask() { # VERSION: what the claim gets
  mkdir "$work/$1" && cd "$work/$1"
  printf 'module finding\n\ngo 1.26.0\n\nrequire k8s.io/dynamic-resource-allocation v%s\n' "$1" >go.mod
  cp "$work/main.go" .
  GOFLAGS=-mod=mod go run . "$1" 2>errors || { cat errors >&2; exit 1; }
}

cat >"$work/main.go" <<'GO'
package main

import (
	"context"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type classes struct{ one *resourceapi.DeviceClass }

func (c classes) List() ([]*resourceapi.DeviceClass, error)           { return []*resourceapi.DeviceClass{c.one}, nil }
func (c classes) Get(string) (*resourceapi.DeviceClass, error)        { return c.one, nil }
func pointer[T any](value T) *T                                       { return &value }
func colored(name, color string) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"color": {StringValue: pointer(color)}}}
}

func devicesOf(colors ...string) int {
	slice := &resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{Driver: "d.example.com", NodeName: pointer("n"),
		Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}}}
	for number, color := range colors {
		slice.Spec.Devices = append(slice.Spec.Devices, colored(fmt.Sprint("device-", number), color))
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{
			Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any",
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2}}},
			Constraints: []resourceapi.DeviceConstraint{{
				DistinctAttribute: pointer(resourceapi.FullyQualifiedName("d.example.com/color"))}},
		}}}
	allocator, err := structured.NewAllocator(context.Background(), structured.Features{ConsumableCapacity: true},
		structured.AllocatedState{}, classes{&resourceapi.DeviceClass{}}, []*resourceapi.ResourceSlice{slice},
		cel.NewCache(10, cel.Features{}))
	if err != nil {
		panic(err)
	}
	found, err := allocator.Allocate(context.Background(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		[]*resourceapi.ResourceClaim{claim})
	if err != nil {
		panic(err)
	}
	if len(found) == 0 {
		return 0
	}
	return len(found[0].Devices.Results)
}

func main() {
	fmt.Printf("%s: of two red devices %d, of a red and a blue one %d\n", os.Args[1], devicesOf("red", "red"), devicesOf("red", "blue"))
}
GO

ask 0.34.12 >"$work/seen"
ask 0.35.8 >>"$work/seen"
cat "$work/seen"
diff "$work/seen" - <<'SEEN' || { echo "no longer as described above" >&2; exit 1; }
0.34.12: of two red devices 2, of a red and a blue one 2
0.35.8: of two red devices 0, of a red and a blue one 2
SEEN
