//go:build !before37

package main

import "k8s.io/dynamic-resource-allocation/cel"

// explained returns a runtime error as the allocator reports it: from 1.37 on with a hint at a missing key.
func explained(err error) error { return cel.EnhanceRuntimeError(err) }
