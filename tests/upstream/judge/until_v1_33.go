//go:build before34

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// What plugins are written with is in k8s.io/kubernetes/pkg/scheduler/framework.
type (
	Status     = framework.Status
	NodeInfo   = *framework.NodeInfo
	CycleState = *framework.CycleState
)

const (
	Success       = framework.Success
	Unschedulable = framework.Unschedulable
	Unresolvable  = framework.UnschedulableAndUnresolvable
	Error         = framework.Error
)

func newCycleState() CycleState { return framework.NewCycleState() }

func newStatus(code framework.Code, reasons ...string) *Status {
	return framework.NewStatus(code, reasons...)
}

func podsOf(n NodeInfo) (out []*v1.Pod) {
	for _, p := range n.Pods {
		out = append(out, p.Pod)
	}
	return out
}
