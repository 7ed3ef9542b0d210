//go:build !before34

package main

import (
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// What plugins are written with is in k8s.io/kube-scheduler/framework.
type (
	Status     = fwk.Status
	NodeInfo   = fwk.NodeInfo
	CycleState = fwk.CycleState
)

const (
	Success       = fwk.Success
	Unschedulable = fwk.Unschedulable
	Unresolvable  = fwk.UnschedulableAndUnresolvable
	Error         = fwk.Error
)

func newCycleState() CycleState { return framework.NewCycleState() }

func newStatus(code fwk.Code, reasons ...string) *Status { return fwk.NewStatus(code, reasons...) }

func podsOf(n NodeInfo) (out []*v1.Pod) {
	for _, p := range n.GetPods() {
		out = append(out, p.GetPod())
	}
	return out
}

func pluginFeatures() feature.Features {
	return feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
}
